"""What the shim costs the training thread per operation while the driver takes 20 ms per set.

All sides are hooked into the same operations, in turn first, so that all meet the same machine: ours (`begin` and
`end` of a session, whose helper sets the clocks of a fake board through the real NVML bindings), the pattern of
Zeus' PipelineFrequencyOptimizer (`zeus_pattern`), and a call that does nothing. Every operation asks for another
clock than the one before. With work between the hooks, their code and data have left the caches, which even an
empty call shows.
"""

import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.registry import SHORT, Benchmark, Settings, UnavailableError
from benchmarks.zeus_pattern import ZeusPattern
from energyopt.applier.runtime.opening import open_session
from energyopt.applier.runtime.settings import Settings as ShimSettings
from energyopt.planner.tables import Table
from energyopt.schemas.ops import OpKind
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Plan, write_plan
from energyopt.schemas.planned_ops import PlannedOp

ASKED_MEDIAN_US, ASKED_P99_US = 5.0, 50.0
SET_S = 0.020  # time of the fake driver for one setting
WORK_S = 0.002  # what the training thread does between two hooks, where it does anything
CLOCKS_MHZ = (1410, 1185)
MICROBATCHES = 64
ITERATIONS = 12
QUIET, RECORDED, ZEUS, NOTHING = (
    "energyopt",
    "energyopt, recorded iterations",
    "Zeus' pattern, synchronise stubbed",
    "an empty call",
)

Costs = dict[str, list[float]]
"""What each call took, s, by the name of its side."""


def run(settings: Settings) -> Table:
    iterations = 2 if settings.smoke else (settings.runs or ITERATIONS)
    rows: list[tuple[str, ...]] = []
    with TemporaryDirectory() as folder, _fake_board(settings.root, Path(folder)):
        for between, work_s in (("nothing", 0.0), (f"{WORK_S * 1e3:g} ms of work", WORK_S)):
            costs = _measure(Path(folder), iterations, work_s)
            rows += [_row(name, between, costs) for name in (QUIET, RECORDED, ZEUS, NOTHING)]
    columns = (
        "hook",
        "between hooks",
        "calls",
        "median us",
        "p99 us",
        "Zeus' median / this",
        "asked us",
        "verdict",
    )
    return Table(title="cost per operation, 20 ms per set", columns=columns, rows=tuple(rows))


def _row(name: str, between: str, costs: Costs) -> tuple[str, ...]:
    ordered = sorted(costs[name])
    middle_us, late_us = median(ordered) * 1e6, ordered[int(len(ordered) * 0.99)] * 1e6
    asked = name in (QUIET, RECORDED)
    good = middle_us <= ASKED_MEDIAN_US and late_us <= ASKED_P99_US
    verdict = "" if not asked else "ok" if good else SHORT
    limits = f"{ASKED_MEDIAN_US:g}, {ASKED_P99_US:g}" if asked else ""
    ratio = f"{median(costs[ZEUS]) * 1e6 / middle_us:.1f}"
    return (name, between, str(len(ordered)), f"{middle_us:.2f}", f"{late_us:.1f}", ratio, limits, verdict)


def _measure(folder: Path, iterations: int, work_s: float) -> Costs:
    write_plan(folder / "plan.json", _plan())
    shim = ShimSettings(telemetry=folder / "telemetry", sample_every=2, site_lock_mhz="none")
    session = open_session(folder / "plan.json", settings=shim)
    zeus = ZeusPattern(CLOCKS_MHZ, SET_S)
    costs: Costs = {QUIET: [], RECORDED: [], ZEUS: [], NOTHING: []}
    try:
        for iteration in range(iterations):
            session.step()
            for number in range(2 * MICROBATCHES):
                sides = _sides(session, zeus, number, RECORDED if iteration % 2 == 0 else QUIET)
                first = number // 2 % len(sides)
                for name, call in (*sides[first:], *sides[:first]):
                    costs[name].append(_timed_s(call))
                    _work(work_s)
    finally:
        zeus.close()
        session.close()
    return costs


def _sides(session: Any, zeus: ZeusPattern, number: int, ours: str) -> list[tuple[str, Callable[[], None]]]:
    kind = OpKind.BACKWARD if number % 2 else OpKind.FORWARD

    def hook() -> None:
        session.begin(kind, number // 2)
        session.end()

    return [(ours, hook), (ZEUS, zeus.hook), (NOTHING, _nothing)]


def _timed_s(call: Callable[[], None]) -> float:
    began_s = time.perf_counter()
    call()
    return time.perf_counter() - began_s


def _nothing() -> None:
    """The least that any hook costs."""


def _work(duration_s: float) -> None:
    """What a training thread does between hooks: it launches work, and does not sleep."""
    until_s = time.perf_counter() + duration_s
    while time.perf_counter() < until_s:
        sum(range(100))


def _plan() -> Plan:
    kinds = (OpKind.FORWARD, OpKind.BACKWARD)
    ops = tuple(
        PlannedOp(op=kind, chunk=0, microbatch=microbatch, sm_clock_mhz=clock_mhz)
        for microbatch in range(MICROBATCHES)
        for kind, clock_mhz in zip(kinds, CLOCKS_MHZ, strict=True)
    )
    return Plan(
        profile_sha256=None,
        device_name="NVIDIA A100-SXM4-80GB",
        device_kind="nvml",
        pipeline=Pipeline(stages=1, microbatches=MICROBATCHES),
        gpus=1,
        predicted=None,
        max_clock=None,
        best_single_clock=None,
        stages=(ops,),
    )


@contextmanager
def _fake_board(root: Path, folder: Path) -> Iterator[None]:
    """A board whose driver takes 20 ms per set, for the helper that the session starts."""
    path = root / "tests" / "fake_nvml" / "fake_boards.py"
    spec = importlib.util.spec_from_file_location("fake_boards", path)
    if spec is None or spec.loader is None:
        raise UnavailableError(f"{path} is missing")
    fake_boards = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fake_boards)
    try:
        fake = fake_boards.FakeNvml(folder, fake_boards.build(folder))
    except FileNotFoundError as error:
        raise UnavailableError(str(error)) from error
    before = dict(os.environ)
    os.environ.update(fake.env | {"ENERGYOPT_STATE_DIR": str(folder / "state")})
    try:
        fake.boards[0].set_delay_s = SET_S
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        fake.close()


BENCHMARK = Benchmark(
    name="hook_cost", shows="a hook costs at most 5 us in the median, 50 at the 99th percentile", run=run
)
