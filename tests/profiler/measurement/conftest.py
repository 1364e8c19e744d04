"""A small workload, the simulated A100 that most tests look at, and a board whose answers a test writes down."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.devices.interface import (
    Absent,
    Capabilities,
    ClockKnob,
    FoundClocks,
    Identity,
    PowerMeaning,
    State,
    Throttle,
)
from energyopt.profiler.benches.interface import Bench
from energyopt.profiler.benches.simulated import open_simulated_bench
from energyopt.profiler.measurement.budget import SweepPlan
from energyopt.profiler.measurement.job import Job, Measured
from energyopt.profiler.measurement.partial import Partial
from energyopt.profiler.measurement.run import measure
from energyopt.profiler.measurement.settings import Settings, Timing
from energyopt.profiler.measurement.sweep import Sweep
from energyopt.profiler.measurement.team import Solo
from energyopt.profiler.workloads.interface import (
    Kernel,
    KernelUse,
    Partition,
    PartitionUse,
    Workload,
    WorkloadOp,
)
from energyopt.schemas.ops import OpKind
from energyopt.schemas.profile import EnergySource

TOKENS, HIDDEN = 16384, 3072


@pytest.fixture
def product() -> Kernel:
    """A matrix product that an A100 at 1410 MHz runs at its power limit."""
    return Kernel(
        name="product",
        flops=6.0 * TOKENS * HIDDEN**2,
        memory_bytes=2.0 * (4 * TOKENS * HIDDEN + 3 * HIDDEN**2),
        matrix=True,
    )


@pytest.fixture
def stream() -> Kernel:
    """An elementwise kernel: bound by memory."""
    return Kernel(name="stream", flops=20.0 * TOKENS * HIDDEN, memory_bytes=16.0 * TOKENS * HIDDEN)


@pytest.fixture
def workload(product: Kernel, stream: Kernel) -> Workload:
    """One forward of 14 layers with one partition: the product once, the stream three times."""
    partition = Partition(
        name="layer", kernels=(KernelUse(kernel=product), KernelUse(kernel=stream, count=3))
    )
    op = WorkloadOp(
        stage=0, chunk=0, kind=OpKind.FORWARD, partitions=(PartitionUse(partition=partition, count=14),)
    )
    return Workload(name="layers", ops=(op,), stages=1)


@dataclass
class ScriptedDevice:
    """A board that is told what to answer; readings may be functions of the time, which the bench keeps.

    counter: the energy counter at a time, J; power likewise, W; ticks: how often the counter advances, s.
    lies: what is added to every clock that is asked for, MHz.
    """

    counter: Callable[[float], float | Absent] = lambda now_s: 200.0 * now_s
    power: Callable[[float], float | Absent] = lambda _: 200.0
    throttle: Callable[[float], Throttle | Absent] = lambda _: Throttle(0)
    tick_s: float | None = 0.02
    lies_mhz: int = 0
    limit_w: float = 400.0
    meaning: PowerMeaning = PowerMeaning.INSTANT
    now_s: float = 0.0
    clock_mhz: int | Absent = 1410
    asked: list[int] = field(default_factory=list)
    restored: int = 0

    @property
    def identity(self) -> Identity:
        return Identity(
            name="Scripted",
            uuid="GPU-0",
            kind="simulated",
            power_limit_w=self.limit_w,
            power_meaning=self.meaning,
        )

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            energy_counter=None,
            power=None,
            sm_clock=None,
            throttle_reasons=None,
            temperature=None,
            supported_clocks=None,
            set_clocks=None,
            knob=ClockKnob.LOCKED_CLOCKS,
        )

    def supported_sm_clocks_mhz(self) -> tuple[int, ...]:
        return (1410, 1200, 1005)

    def state(self) -> State:
        return State(sm_clock_mhz=self.clock_mhz, temperature_c=50.0, throttle=self.throttle(self.now_s))

    def energy_j(self) -> float | Absent:
        ticked_s = self.now_s if self.tick_s is None else self.now_s // self.tick_s * self.tick_s
        return self.counter(ticked_s)

    def power_w(self) -> float | Absent:
        return self.power(self.now_s)

    def find_clocks(self) -> FoundClocks:
        return FoundClocks(knob=ClockKnob.LOCKED_CLOCKS)

    def lock_sm_clock(self, sm_clock_mhz: int) -> None:
        self.asked.append(sm_clock_mhz)
        self.clock_mhz = sm_clock_mhz + self.lies_mhz

    def restore_clocks(self, found: FoundClocks) -> None:
        self.restored += found == self.find_clocks()

    def close(self) -> None:
        pass


class ScriptedBench:
    """Implements `Bench` in virtual time; every run of a kernel takes `run_s`."""

    def __init__(self, device: ScriptedDevice, run_s: float = 1e-3) -> None:
        self.device, self.run_s = device, run_s
        self.slept_s: list[float] = []
        self.looks_s: list[float] = []
        self.before_run: Callable[[Kernel], None] = lambda _: None
        self.last_idle_share = 0.0

    def now_s(self) -> float:
        return self.device.now_s

    def sleep(self, duration_s: float, poll: Callable[[float], float] | None = None) -> None:
        self.slept_s.append(duration_s)
        self._spend(duration_s, poll)

    def prepare(self, kernel: Kernel) -> None:
        pass

    def run(self, kernel: Kernel, repeats: int, poll: Callable[[float], float] | None = None) -> float:
        self.before_run(kernel)
        self._spend(repeats * self.run_s, poll)
        return repeats * self.run_s

    def wait(self, duration_s: float, poll: Callable[[float], float] | None = None) -> None:
        self._spend(duration_s, poll)

    def close(self) -> None:
        pass

    def _spend(self, duration_s: float, poll: Callable[[float], float] | None) -> None:
        device, end_s = self.device, self.device.now_s + duration_s
        due_s = device.now_s
        while poll is not None and due_s < end_s:
            device.now_s = max(device.now_s, due_s)
            self.looks_s.append(device.now_s)
            due_s = poll(device.now_s)
        device.now_s = end_s


class Memory:
    """Keeps records in a list, for sweeps that need no file."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, dict[str, Any]]] = []

    def add(self, kind: str, value: dict[str, Any]) -> None:
        self.kept.append((kind, value))


@pytest.fixture
def scripted() -> Callable[..., ScriptedBench]:
    """`scripted(counter=..., run_s=...)`: a bench with a scripted board."""

    def make(run_s: float = 1e-3, **answers: Any) -> ScriptedBench:
        return ScriptedBench(ScriptedDevice(**answers), run_s)

    return make


@pytest.fixture
def timing() -> Timing:
    """Windows of half a second on a counter that ticks every 20 ms."""
    return Timing(tick_s=0.02, window_s=0.5, warm_up_s=0.1, fine_s=1.25e-3)


@pytest.fixture
def make_sweep(workload: Workload) -> Callable[..., Sweep]:
    """`make_sweep(bench, clocks, timing, windows=2)`: a sweep that keeps its records in memory."""

    def make(bench: Bench, clocks: Sequence[int], timing: Timing, *, windows: int = 5, **more: Any) -> Sweep:
        plan = SweepPlan(
            clocks_mhz=tuple(clocks),
            windows=windows,
            timing=timing,
            duration_s=0.0,
            window_error=more.pop("window_error", 0.006),
            expected_error=None,
        )
        values: dict[str, Any] = {
            "workload": workload,
            "source": EnergySource.COUNTER,
            "wait_power_w": 84.0,
            "team": Solo(),
            "peers": Solo(),
            "kept": Memory(),
            "progress": lambda *_: None,
            "early_stop": False,
        }
        locks = more.pop("locks", _Locks(bench))
        return Sweep(bench=bench, plan=plan, locks=locks, **(values | more))

    return make


class _Locks:
    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def lock(self, sm_clock_mhz: int) -> None:
        self._bench.device.lock_sm_clock(sm_clock_mhz)


@pytest.fixture
def make_job(workload: Workload) -> Callable[..., Job]:
    """`make_job(bench, clocks_mhz=(1410,), windows=2)`: a job; what is said and warned goes to lists."""

    def make(bench: Bench | None = None, *, warned: list[str] | None = None, **settings: Any) -> Job:
        more = {name: settings.pop(name) for name in ("workload",) if name in settings}
        chosen: dict[str, Any] = {"clocks_mhz": (1410, 1005), "early_stop": False, "soak_s": 20.0} | settings
        heard: list[str] = []
        return Job(
            bench=bench or open_simulated_bench("a100-sxm4-80gb"),
            workload=more.get("workload", workload),
            settings=Settings(**chosen),
            progress=lambda *_: None,
            say=heard.append,
            warn=heard.append if warned is None else warned.append,
        )

    return make


@pytest.fixture
def run_job(tmp_path: Path) -> Callable[[Job], Measured]:
    """Run a job from the start to the end."""

    def run(job: Job) -> Measured:
        path = tmp_path / "run.partial"
        path.unlink(missing_ok=True)
        with Partial(path, "digest", "a test") as partial:
            return measure(job, partial)

    return run
