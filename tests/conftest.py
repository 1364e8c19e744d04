"""Fixtures that more than one folder uses: a job small enough to be worked out by hand.

Two stages, two microbatches, 1F1B, wait power 100 W, one GPU per stage. A forward takes 1 s and 300 J at
1400 MHz or 1.25 s and 250 J at 1000 MHz; a backward takes twice as long and costs twice as much. At 1400 MHz:

    stage 0   F0 0-1   F1 1-2   B0 4-6   B1 7-9
    stage 1   F0 1-2   B0 2-4   F1 4-5   B1 5-7       T = 9 s, 12 s busy, 3600 J + 6 s x 100 W = 4200 J

F1 and B0 of stage 0 have 2 s and 1 s to spare. Slowing both: 12.75 s busy, 3450 + 5.25 x 100 = 3975 J.
"""

import ctypes
import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pynvml
import pytest

from energyopt.schemas.frontier import Frontier
from energyopt.schemas.frontier_points import FrontierPoint
from energyopt.schemas.ops import Op, OpKey, OpKind, Schedule
from energyopt.schemas.options import Option
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Baseline, Plan, Prediction
from energyopt.schemas.planned_ops import PlannedOp
from energyopt.schemas.profile import EnergySource, Level, Profile, ProfileRow
from energyopt.schemas.profile_metadata import DeviceKind, ProfileMetadata

ORDERS = ("F0 F1 B0 B1", "F0 B0 F1 B1")
KINDS = {"F": OpKind.FORWARD, "B": OpKind.BACKWARD}
MARGINAL_W = {9.0: 150.0, 9.25: 100.0, 11.25: 80.0}  # slopes of a convex bound through its points
COSTS = {  # time_s and energy_j at 1400 and at 1000 MHz
    OpKind.FORWARD: ((1400, 1.0, 300.0), (1000, 1.25, 250.0)),
    OpKind.BACKWARD: ((1400, 2.0, 600.0), (1000, 2.5, 500.0)),
}


def _schedule() -> Schedule:
    orders = tuple(
        tuple(
            Op(stage=stage, chunk=0, microbatch=int(word[1]), kind=KINDS[word[0]]) for word in order.split()
        )
        for stage, order in enumerate(ORDERS)
    )
    return Schedule(name="1f1b", microbatches=2, virtual_stages=((0,), (1,)), orders=orders)


def _point(
    names: tuple[str, ...], time_s: float, energy_j: float, bound_j: float, choices: str
) -> FrontierPoint:
    digits = choices.replace(" ", "")
    stages = choices.split()
    return FrontierPoint(
        names=names,
        iteration_time_s=time_s,
        energy_j=energy_j,
        lower_bound_j=bound_j,
        gap=energy_j / bound_j - 1,
        dynamic_j=energy_j - 200.0 * time_s,
        static_j=200.0 * time_s,
        average_power_w=energy_j / time_s,
        marginal_power_w=MARGINAL_W[time_s],
        clock_switches=sum(a != b for stage in stages for a, b in pairwise(stage)),
        choices=tuple(int(digit) for digit in digits),
    )


@pytest.fixture
def small_frontier() -> Frontier:
    """Three points: 9 s at 3975 J, 9.25 s at 3950 J (stage 1's F0 slow too), 11.25 s at 3750 J (all slow)."""
    options = {
        OpKey(stage, 0, kind): tuple(Option(sm_clock_mhz=c, time_s=t, energy_j=e) for c, t, e in COSTS[kind])
        for stage in (0, 1)
        for kind in (OpKind.FORWARD, OpKind.BACKWARD)
    }
    return Frontier(
        profile_sha256="ab" * 32,
        device_name="GPU [bold]x[/bold]",
        device_kind="simulated",
        scope="gpu_board",
        wait_power_w=100.0,
        gpus=2,
        pipeline=Pipeline(stages=2, microbatches=2),
        schedule=_schedule(),
        options=options,
        max_clock=Baseline(iteration_time_s=9.0, energy_j=4200.0),
        single_clocks=(
            Baseline(sm_clock_mhz=1000, iteration_time_s=11.25, energy_j=3750.0),
            Baseline(sm_clock_mhz=1400, iteration_time_s=9.0, energy_j=4200.0),
        ),
        points=(
            _point(("fastest", "max_clock_time", "best_edp"), 9.0, 3975.0, 3960.0, "0110 0000"),
            _point((), 9.25, 3950.0, 3930.0, "0110 1000"),
            _point(("min_energy",), 11.25, 3750.0, 3750.0, "1111 1111"),
        ),
    )


@pytest.fixture
def small_plan(small_frontier: Frontier) -> Plan:
    """The fastest point of the small frontier."""
    clocks = iter((1400, 1000, 1000, 1400, 1400, 1400, 1400, 1400))
    return Plan(
        profile_sha256=small_frontier.profile_sha256,
        device_name=small_frontier.device_name,
        device_kind=small_frontier.device_kind,
        pipeline=small_frontier.pipeline,
        gpus=2,
        predicted=Prediction(
            iteration_time_s=9.0, energy_j=3975.0, lower_bound_j=3960.0, gap=3975.0 / 3960.0 - 1
        ),
        max_clock=Baseline(iteration_time_s=9.0, energy_j=4200.0),
        best_single_clock=Baseline(sm_clock_mhz=1400, iteration_time_s=9.0, energy_j=4200.0),
        stages=tuple(
            tuple(
                PlannedOp(op=op.kind, chunk=0, microbatch=op.microbatch, sm_clock_mhz=next(clocks))
                for op in order
            )
            for order in small_frontier.schedule.orders
        ),
    )


@pytest.fixture
def small_profile() -> Profile:
    """The rows behind the small frontier, one set for both stages, and one row that must not be used."""
    rows = [
        ProfileRow(
            level=Level.OP,
            stage=None,
            chunk=None,
            op=kind,
            sm_clock_mhz=clock,
            time_s=time_s,
            energy_j=energy_j,
            energy_source=EnergySource.MODEL,
        )
        for kind, costs in COSTS.items()
        for clock, time_s, energy_j in costs
    ]
    rows.append(
        ProfileRow(
            level=Level.OP,
            stage=None,
            chunk=None,
            op=OpKind.FORWARD,
            sm_clock_mhz=1200,
            time_s=9.0,
            energy_j=9.0,
            energy_source=EnergySource.MODEL,
            invalid="clock not held",
        )
    )
    metadata = ProfileMetadata(
        device_name="GPU [bold]x[/bold]",
        device_kind=DeviceKind.SIMULATED,
        wait_power_w=100.0,
        driver="570.1",
        workload={"model": "tiny", "microbatch_size": 4},
        time="2025-01-02T03:04:05Z",
    )
    return Profile(metadata=metadata, rows=tuple(rows))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of measured data beside the project; tests that need it are skipped where it is absent."""
    folder = Path(__file__).resolve().parents[1] / "../shared/data"
    if not folder.is_dir():
        pytest.skip("no ../shared/data beside the project")
    return folder.resolve()


def _load(*way: str) -> ModuleType:
    """A module of the tests: with importlib's import mode, tests cannot import a neighbour by name."""
    path = Path(__file__).parent.joinpath(*way)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def fake_boards() -> ModuleType:
    """The module behind `fake_nvml`, for its constants; skips where no C compiler can build the driver."""
    module = _load("fake_nvml", "fake_boards.py")
    if not any(shutil.which(compiler) for compiler in ("cc", "gcc", "clang")):
        pytest.skip("no C compiler (cc, gcc or clang) for the fake NVML driver")
    return module


@pytest.fixture(scope="session")
def fake_nvml_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the driver and its variants are compiled; each worker has its own."""
    return tmp_path_factory.mktemp("fake-nvml")


@pytest.fixture
def make_fake_nvml(
    fake_boards: ModuleType, fake_nvml_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Any]]:
    """`make_fake_nvml(2, "NO_TOTAL_ENERGY")`: two boards behind a driver that lacks a function.

    The real bindings of this process use it until the test ends, as if by an administrator; subprocesses do with
    `env=fake.env`, with the rights that the tests run with.
    """
    made: list[Any] = []

    def make(count: int = 1, *lacking: str) -> Any:
        library = fake_boards.build(fake_nvml_folder, *lacking)
        fake = fake_boards.FakeNvml(tmp_path, library, count)
        made.append(fake)
        for name, value in fake.variables.items():
            monkeypatch.setenv(name, value)
        for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr("energyopt.applier.devices.nvml.rights.may_administer", lambda: True)
        monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(library)))
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return fake

    yield make
    for fake in made:
        fake.close()


@pytest.fixture
def fake_nvml(make_fake_nvml: Callable[..., Any]) -> Any:
    """A driver with one A100 at full load; `fake_nvml.boards[0]` changes it (tests/fake_nvml/fake_boards.py)."""
    return make_fake_nvml()


@pytest.fixture(scope="session")
def recorded() -> ModuleType:
    """Telemetry whose truth is known by formula."""
    return _load("planner", "verification", "recorded.py")
