"""sweep.json: what is written is read again, equal sweeps are equal bytes, and what cannot be is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from energyopt.schemas.detect import SWEEP, detect_format
from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.sweep import (
    FailedLayout,
    Layout,
    LeftOut,
    PlannedLayout,
    Sweep,
    SweepPoint,
    read_sweep,
    write_sweep,
)

LAYOUT = Layout(
    profile="tp8.parquet",
    stages=4,
    chunks_per_stage=2,
    schedule="interleaved-1f1b",
    microbatches=32,
    microbatch_size=2,
    tensor_parallel=8,
    context_parallel=1,
    data_parallel=3,
    layers_per_stage=(3, 4, 4, 4, 4, 4, 4, 3),
)


@pytest.fixture
def sweep() -> Sweep:
    points = [
        SweepPoint(
            iteration_time_s=time_s,
            energy_j=energy_j,
            lower_bound_j=energy_j - 1,
            average_power_w=energy_j / time_s,
            peak_power_w=peak_w,
        )
        for time_s, energy_j, peak_w in ((2.0, 400.0, 250.0), (3.0, 300.0, None))
    ]
    planned = PlannedLayout(
        layout=LAYOUT,
        max_clock_time_s=2.0,
        max_clock_energy_j=500.0,
        points=tuple(points),
        frontier="one.frontier.parquet",
    )
    return Sweep(
        model="llama",
        device_name="GPU",
        device_kind="simulated",
        scope="gpu_board",
        global_batch=192,
        sequence_length=1024,
        max_slowdown=1.05,
        layouts=(planned, replace(planned, frontier=None)),
        failed=(FailedLayout(layout=replace(LAYOUT, stages=5), error="no rows"),),
        left_out=(LeftOut(combination="pp7", reason="64 GPUs do not divide"),),
    )


def test_what_follows_from_a_layout(sweep: Sweep) -> None:
    assert LAYOUT.gpus == 4 * 8 * 3
    assert LAYOUT.name == "tp8 pp4x2 dp3 mb2x32 interleaved-1f1b"
    assert replace(LAYOUT, context_parallel=2, chunks_per_stage=1).name.startswith("tp8 cp2 pp4 dp3 ")
    assert sweep.tokens == 192 * 1024


def test_round_trip(sweep: Sweep, tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    write_sweep(first, sweep)
    assert read_sweep(first) == sweep
    assert detect_format(first) == SWEEP
    write_sweep(second, read_sweep(first))
    assert first.read_bytes() == second.read_bytes()


def _set(*path: str | int, value: Any) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        for step in path[:-1]:
            content = content[step]
        content[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("schema_version", value=2), "upgrade energyopt"),
        (_set("layouts", value=[]), "expected at least one layout @ $.layouts"),
        (_set("layouts", 0, "points", value=[]), "expected points, each slower than the one before"),
        (_set("layouts", 0, "points", 1, "iteration_time_s", value=2.0), "@ $.layouts[0].points"),
        (_set("layouts", 0, "points", 0, "energy_j", value=0), "@ $.layouts[0].points[0].energy_j"),
        (_set("layouts", 0, "points", 0, "peak_power_w", value="high"), "expected a number, found 'high'"),
        (_set("layouts", 0, "layout", "stages", value=0), "@ $.layouts[0].layout.stages"),
        (_set("max_slowdown", value=0), "expected a number above 0"),
    ],
)
def test_files_that_cannot_be(
    sweep: Sweep, tmp_path: Path, change: Callable[[Any], None], words: str
) -> None:
    path = tmp_path / "sweep.json"
    write_sweep(path, sweep)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(FileFormatError) as refused:
        read_sweep(path)
    assert words in str(refused.value)
