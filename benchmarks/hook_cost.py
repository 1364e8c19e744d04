"""What the shim costs the training thread per operation while the driver takes 20 ms per set.

Both sides are hooked into the same operations, in turn first, so that both meet the same machine: ours (`begin` and
`end` of a session, whose helper sets the clocks of a fake board through the real NVML bindings), and the pattern of
Zeus' PipelineFrequencyOptimizer (`zeus_pattern`). Every operation asks for another clock than the one before.
"""

import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from energyopt.schemas.plan import Plan, PlannedOp, write_plan

ASKED_MEDIAN_US, ASKED_P99_US = 5.0, 50.0
SET_S = 0.020  # time of the fake driver for one setting
OPERATION_S = 0.002  # time between two hooks, in which the training thread is busy
CLOCKS_MHZ = (1410, 1185)
MICROBATCHES = 64
ITERATIONS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Costs:
    """What each hook took, s."""

    quiet: list[float] = field(default_factory=list)
    recorded: list[float] = field(default_factory=list)
    zeus: list[float] = field(default_factory=list)


def run(settings: Settings) -> Table:
    iterations = 2 if settings.smoke else (settings.runs or ITERATIONS)
    with TemporaryDirectory() as folder, _fake_board(settings.root, Path(folder)):
        costs = _measure(Path(folder), iterations, 0.0 if settings.smoke else OPERATION_S)
    zeus_s = median(costs.zeus)
    rows = (
        _row("energyopt", costs.quiet, zeus_s, asked=True),
        _row("energyopt, recorded iterations", costs.recorded, zeus_s, asked=True),
        _row("Zeus' pattern, synchronise stubbed", costs.zeus, zeus_s, asked=False),
    )
    columns = ("hook", "operations", "median us", "p99 us", "Zeus' median / this", "asked us", "verdict")
    return Table(title="cost per operation, 20 ms per set", columns=columns, rows=rows)


def _row(name: str, costs_s: list[float], zeus_s: float, *, asked: bool) -> tuple[str, ...]:
    ordered = sorted(costs_s)
    middle_us, late_us = median(ordered) * 1e6, ordered[int(len(ordered) * 0.99)] * 1e6
    good = middle_us <= ASKED_MEDIAN_US and late_us <= ASKED_P99_US
    verdict = "" if not asked else "ok" if good else SHORT
    limits = f"{ASKED_MEDIAN_US:g}, {ASKED_P99_US:g}" if asked else ""
    ratio = f"{zeus_s * 1e6 / middle_us:.1f}"
    return (name, str(len(ordered)), f"{middle_us:.2f}", f"{late_us:.1f}", ratio, limits, verdict)


def _measure(folder: Path, iterations: int, operation_s: float) -> _Costs:
    write_plan(folder / "plan.json", _plan())
    shim = ShimSettings(telemetry=folder / "telemetry", sample_every=2)
    session = open_session(folder / "plan.json", settings=shim)
    zeus = ZeusPattern(CLOCKS_MHZ, SET_S)
    costs = _Costs()
    try:
        for iteration in range(iterations):
            session.step()
            ours = costs.quiet if iteration % 2 else costs.recorded
            for number in range(2 * MICROBATCHES):
                _hook_both(session, zeus, number, ours, costs.zeus)
                _busy(operation_s)
    finally:
        zeus.close()
        session.close()
    return costs


def _hook_both(session: Any, zeus: ZeusPattern, number: int, ours: list[float], theirs: list[float]) -> None:
    kind = OpKind.BACKWARD if number % 2 else OpKind.FORWARD

    def hook() -> None:
        session.begin(kind, number // 2)
        session.end()

    sides: list[tuple[Callable[[], None], list[float]]] = [(hook, ours), (zeus.hook, theirs)]
    for call, costs_s in sides if number % 4 < 2 else reversed(sides):
        began_s = time.perf_counter()
        call()
        costs_s.append(time.perf_counter() - began_s)
        _busy(OPERATION_S / 4)


def _busy(duration_s: float) -> None:
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
