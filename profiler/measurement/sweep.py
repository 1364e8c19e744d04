"""The sweep: rounds through all clocks, from the highest down, with every kernel once at each.

Rounds are the interleaving: a board that warms up or drifts puts its drift into the spread of every row instead of
into the difference between two clocks. Within a clock the order of kernels changes from round to round.
"""

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from energyopt.applier.devices.interface import UNREPRODUCIBLE, Throttle
from energyopt.profiler.benches.interface import Bench
from energyopt.profiler.measurement.budget import SweepPlan
from energyopt.profiler.measurement.compose import op_parts
from energyopt.profiler.measurement.early_stop import all_turned
from energyopt.profiler.measurement.latency import Locks
from energyopt.profiler.measurement.statistics import DRIFT, Reading
from energyopt.profiler.measurement.team import Team
from energyopt.profiler.measurement.window import Conditions, Window, measure_window
from energyopt.profiler.workloads.interface import Kernel, Workload, WorkloadOp
from energyopt.schemas.errors import MeasurementError
from energyopt.schemas.profile import EnergySource

TRIES = 3
PAUSE_S = 5.0
"""How long a board that throttled for heat is left alone before the window is tried again."""

Progress = Callable[[str, float], None]


class Kept(Protocol):
    """Where windows are kept as they are measured."""

    def add(self, kind: str, value: dict[str, Any]) -> None:
        """Keep one."""


@dataclass(slots=True)
class Sweep:
    """One run's windows and what they are measured with.

    windows: by kernel name and clock; what an earlier run left is put in before `run`.
    locks: sets clocks; None where the clock is left as it is.
    team: all ranks; peers: those that run collectives together, which all have the same kernels.
    able: whether this rank can measure; one that cannot still takes part in collectives.
    ends_s: the bench's time at which a budget is used up; None without one.
    stopped_at_mhz: the lowest clock measured, where the sweep stopped early.
    """

    bench: Bench
    workload: Workload
    plan: SweepPlan
    source: EnergySource
    wait_power_w: float
    team: Team
    peers: Team
    locks: Locks | None
    kept: Kept
    progress: Progress
    early_stop: bool = True
    seed: int = 0
    able: bool = True
    ends_s: float | None = None
    windows: dict[tuple[str, int], list[Window]] = field(default_factory=dict)
    stopped_at_mhz: int | None = None
    _run_s: dict[tuple[str, int], float] = field(default_factory=dict)

    def run(self) -> tuple[int, ...]:
        """Measure what is not there yet; return the clocks that were measured, highest first.

        Raises:
            MeasurementError: a rank is gone, or the record cannot be written.
            WorkloadError: a kernel fails.
        """
        clocks = self._first_round()
        began_s = self.bench.now_s()
        for number in range(1, self.plan.windows):
            if number > 1 and self.out_of_time(self.bench.now_s() - began_s):
                break
            began_s = self.bench.now_s()
            for index, clock in enumerate(clocks):
                self._tell(number, index, clock, len(clocks))
                self.visit(clock, number, self.workload.kernels())
        return clocks

    def out_of_time(self, lasting_s: float) -> bool:
        """Whether something that takes this long would overrun the budget on some rank."""
        if self.ends_s is None:
            return False
        return any(self.team.gather(self.bench.now_s() + lasting_s > self.ends_s))

    def _first_round(self) -> tuple[int, ...]:
        """All clocks once, from the top down, until every op has clearly turned."""
        asked = self.plan.clocks_mhz
        effective_j: dict[object, list[Reading]] = {_key(op): [] for op in self.workload.ops}
        for index, clock in enumerate(asked):
            self._tell(0, index, clock, len(asked))
            self.visit(clock, 0, self.workload.kernels())
            self._note_effective(clock, effective_j)
            turned = self.early_stop and (not self.able or all_turned(effective_j))
            if all(self.team.gather(turned)) and index + 1 < len(asked):
                self.stopped_at_mhz = clock
                return asked[: index + 1]
        return asked

    def _note_effective(self, clock: int, effective_j: dict[object, list[Reading]]) -> None:
        for op in self.workload.ops:
            cost = self._first_cost(op_parts(op), clock)
            if cost is not None:
                effective_j[_key(op)].append(cost)

    def _first_cost(self, parts: list[tuple[str, int]], clock: int) -> Reading | None:
        """An op's effective energy in the first round, J; None where a kernel has no usable window there."""
        energies_j, times_s = [], []
        for name, count in parts:
            usable = [one for one in self.windows.get((name, clock), []) if one.round == 0 and one.usable]
            if not usable:
                return None
            energies_j.append(count * (usable[0].energy_j or 0.0))
            times_s.append(count * usable[0].time_s)
        energy_j = math.fsum(energies_j)
        error_j = math.hypot(DRIFT * energy_j, *(self.plan.window_error * one for one in energies_j))
        return Reading(energy_j - self.wait_power_w * math.fsum(times_s), error_j)

    def visit(self, clock: int, number: int, kernels: Iterable[Kernel]) -> None:
        """One window of each kernel at a clock, in an order of this round's own; all ranks have the same order."""
        kernels = list(kernels)
        random.Random(f"{self.seed}/{clock}/{number}").shuffle(kernels)
        kernels = [one for one in kernels if self.able or one.communication is not None]
        missing = [kernel for kernel in kernels if not self._has(kernel, clock, number)]
        if not any(self.team.gather(bool(missing))):
            return
        self._lock(clock)
        for kernel in missing:
            self._measure(kernel, clock, number)

    def _has(self, kernel: Kernel, clock: int, number: int) -> bool:
        """Collectives are measured by all ranks or none, so one that any rank lacks is measured again."""
        here = any(one.round == number for one in self.windows.get((kernel.name, clock), []))
        return here if kernel.communication is None else all(self.peers.gather(here or not self.able))

    def _lock(self, clock: int) -> None:
        """Set the clock on all ranks, or on none that goes on."""
        problem = None
        if self.locks is not None:
            try:
                self.locks.lock(clock)
            except Exception as error:
                if self.team.size == 1:
                    raise
                problem = str(error)
        for rank, one in enumerate(self.team.gather(problem)):
            if one is not None:
                raise MeasurementError(f"rank {rank} cannot set {clock} MHz: {one}")

    def _measure(self, kernel: Kernel, clock: int, number: int) -> None:
        """One window; one that is rejected is tried again, after a pause where heat is the reason."""
        conditions = self._conditions(clock, number)
        self.bench.prepare(kernel)
        kept: Window | None = None
        failed = 0
        for tries in range(1, TRIES + 1):
            window = measure_window(
                self.bench,
                kernel,
                conditions,
                run_s=self._run_s.get((kernel.name, clock)),
                agree=self._agree(kernel),
            )
            if window.usable and kept is None:
                kept = window
            failed += not window.usable
            again = self.able and kept is None and tries < TRIES
            if kernel.communication is not None:
                again = any(self.peers.gather(again))
            if not again:
                break
            heat = Throttle(window.throttle or 0) & UNREPRODUCIBLE
            self.bench.sleep(PAUSE_S if heat else conditions.timing.cool_down_s)
        self._run_s[kernel.name, clock] = window.time_s
        window = replace(kept or window, tries=failed + (kept is not None))
        self.windows.setdefault((kernel.name, clock), []).append(window)
        self.kept.add("window", asdict(window))
        self._cool_down()

    def _conditions(self, clock: int, number: int) -> Conditions:
        return Conditions(
            sm_clock_mhz=clock,
            round=number,
            source=self.source,
            power_limit_w=self.bench.device.identity.power_limit_w,
            timing=self.plan.timing,
            held=self.locks is not None,
        )

    def _cool_down(self) -> None:
        if self.plan.timing.cool_down_s:
            self.bench.sleep(self.plan.timing.cool_down_s)

    def _agree(self, kernel: Kernel) -> Callable[[int], int]:
        """Ranks of one collective run it equally often: as often as the one that would run it most."""
        if kernel.communication is None or self.peers.size == 1:
            return int
        return lambda repeats: int(max(self.peers.gather(repeats)))

    def _tell(self, number: int, index: int, clock: int, clocks: int) -> None:
        share = (number + index / clocks) / self.plan.windows
        self.progress(f"round {number + 1} of {self.plan.windows}, {clock} MHz", share)


def _key(op: WorkloadOp) -> tuple[int, int, str]:
    return op.stage, op.chunk, op.kind


def restore_windows(kept: list[dict[str, Any]]) -> dict[tuple[str, int], list[Window]]:
    """The windows of an earlier run's record."""
    windows: dict[tuple[str, int], list[Window]] = {}
    for one in kept:
        window = Window(**one)
        windows.setdefault((window.kernel, window.sm_clock_mhz), []).append(window)
    return windows
