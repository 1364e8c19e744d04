"""What planners spent on pipelines of growing size: the measurements, kept in a file, and their picture.

benchmarks/growth.json holds the last measurement of each planner, profile and size; growth.svg shows them.
"""

import json
import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import NamedTuple

from matplotlib.axes import Axes

from benchmarks.registry import UnavailableError
from energyopt.planner.plots.canvas import BLUE, GREY, ORANGE, VERMILLION, new_figure, paper_style, save
from energyopt.schemas.files import write_atomically

OURS = "energyopt plan, 20 points"
HIGHS = "plain HiGHS, relaxed problem alone"
LOWTIME = "lowtime 0.3.0"
_COLOURS = {OURS: BLUE, HIGHS: ORANGE, LOWTIME: VERMILLION}
_LINES = ("-", "--", ":")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What one planner spent on one job; `stopped` at the time limit, what it spent until then.

    gaps: of its points, where its plans have proven bounds.
    """

    planner: str
    profile: str
    ops: int
    wall_s: float
    gib: float
    stopped: bool = False
    gaps: tuple[float, ...] = ()
    date: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        """What a later measurement replaces."""
        return self.planner, self.profile, self.ops

    def __str__(self) -> str:
        return f"{'more than ' if self.stopped else ''}{self.wall_s:.1f} s, {self.gib:.2f} GiB"


def measured(
    command: Sequence[str], limit_s: float | None = None, folder: Path | None = None
) -> tuple[float, float, bool]:
    """Run a process to its end: wall time in s, largest resident set in GiB, whether it was stopped at the limit.

    The memory is the last that was seen, at most some 20 ms before the end: what the kernel tells at the end begins
    with that of the process which started it.

    Raises:
        UnavailableError: it failed.
    """
    began_s = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stopped = False
    status_file, peak_gib = Path(f"/proc/{process.pid}/status"), 0.0
    while True:
        with suppress(OSError, StopIteration):  # it may just have ended
            lines = status_file.read_text().splitlines()
            peak_kib = int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
            peak_gib = peak_kib / 2**20
        pid, status, _ = os.wait4(process.pid, os.WNOHANG)
        took_s = time.perf_counter() - began_s
        if pid:
            break
        if limit_s is not None and took_s > limit_s and not stopped:
            stopped = True
            process.kill()
        time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and not stopped:
        raise UnavailableError(f"{Path(command[0]).name} exited with {process.returncode}")
    return took_s, peak_gib, stopped


class Measurements:
    """The measurements of a folder, written and drawn anew with each that is added."""

    def __init__(self, folder: Path) -> None:
        self._file, self._picture = folder / "growth.json", folder / "growth.svg"

    def add(self, one: Measurement) -> None:
        """Keep a measurement, dated today, instead of an earlier one of the same."""
        known = {each.key: each for each in self._read()}
        known[one.key] = replace(one, date=f"{datetime.now(UTC):%Y-%m-%d}")
        kept = [known[key] for key in sorted(known)]
        text = ",\n".join(json.dumps(asdict(each), sort_keys=True) for each in kept)

        def write(path: Path) -> None:
            path.write_text(f"[\n{text}\n]\n")

        write_atomically(self._file, write)
        draw(kept, self._picture)

    def _read(self) -> list[Measurement]:
        lines = json.loads(self._file.read_text()) if self._file.exists() else []
        return [Measurement(**(line | {"gaps": tuple(line["gaps"])})) for line in lines]


def draw(measurements: Sequence[Measurement], picture: Path) -> None:
    """Time, memory and gaps against the number of operations."""
    profiles = sorted({one.profile for one in measurements})
    with paper_style():
        figure = new_figure(11.0, 4.6)
        time_axes, memory_axes, gap_axes = figure.subplots(1, 3)
        for planner, colour in _COLOURS.items():
            for profile, line in zip(profiles, _LINES, strict=False):
                own = [one for one in measurements if (one.planner, one.profile) == (planner, profile)]
                style = _Style(colour=colour, line=line, name=f"{planner}: {profile}")
                _draw_spent(time_axes, own, [one.wall_s for one in own], style)
                _draw_spent(memory_axes, own, [one.gib for one in own], style)
                _draw_gaps(gap_axes, [one for one in own if one.gaps], line, profile)
        time_axes.plot([], [], "^", color=GREY, markersize=9, label="stopped before its end")
        _describe(time_axes, "wall time of the process (s)")
        _describe(memory_axes, "largest resident set (GiB)")
        _describe(gap_axes, "proven gap of 20 points (%)")
        gap_axes.set_yscale("linear")
        gap_axes.set_ylim(bottom=0.0)
        figure.legend(*time_axes.get_legend_handles_labels(), loc="outside lower left", ncols=2)
        figure.legend(*gap_axes.get_legend_handles_labels(), loc="outside lower right")
    save(figure, picture)


class _Style(NamedTuple):
    colour: str
    line: str
    name: str


def _draw_spent(axes: Axes, rows: Sequence[Measurement], values: Sequence[float], style: _Style) -> None:
    if not rows:
        return
    ops = [one.ops for one in rows]
    axes.plot(ops, values, style.line, marker="o", markersize=4, color=style.colour, label=style.name)
    stopped = [index for index, one in enumerate(rows) if one.stopped]
    places, reached = [ops[index] for index in stopped], [values[index] for index in stopped]
    axes.plot(places, reached, "^", color=style.colour, markersize=9)


def _draw_gaps(axes: Axes, rows: Sequence[Measurement], line: str, profile: str) -> None:
    if not rows:
        return
    ops = [one.ops for one in rows]
    for name, colour, pick in (("largest", BLUE, max), ("median", GREY, median)):
        values = [100 * pick(one.gaps) for one in rows]
        axes.plot(ops, values, line, marker="o", markersize=4, color=colour, label=f"{name} gap: {profile}")


def _describe(axes: Axes, what: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations of an iteration")
    axes.set_ylabel(what)
    axes.grid(visible=True)
