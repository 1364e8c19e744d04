"""A rank whose board fails somewhere on the way, beside two that are well: threads on simulated boards.

What ranks say to each other goes through a barrier; ranks that do not make the same calls run into its time limit.
"""

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent, State, Throttle
from energyopt.profiler.benches.simulated import open_simulated_bench
from energyopt.profiler.distributed.together import _shard
from energyopt.profiler.measurement.agreement import AgreedError
from energyopt.profiler.measurement.job import Job
from energyopt.profiler.measurement.partial import Partial
from energyopt.profiler.measurement.resting import WINDOWS
from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.workloads.interface import (
    Kernel,
    KernelUse,
    Partition,
    PartitionUse,
    Workload,
    WorkloadOp,
)
from energyopt.schemas.errors import ClockControlError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.profile import Profile

LIMIT_S = 120.0
RANKS = 3
BROKEN = 1
SILENT = Absent("silent")


class Wire:
    """What the ranks' teams share."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(RANKS)
        self.values: list[Any] = [None] * RANKS


class Rank:
    """One rank's team; it counts how often it spoke."""

    size = RANKS

    def __init__(self, wire: Wire, rank: int) -> None:
        self.rank, self.spoken, self._wire = rank, 0, wire

    def gather(self, value: Any) -> list[Any]:
        self.spoken += 1
        self._wire.values[self.rank] = value
        self._wire.barrier.wait(LIMIT_S)
        found = list(self._wire.values)
        self._wire.barrier.wait(LIMIT_S)
        return found


def _refuses_clocks(bench: Any) -> None:
    def refuse(_clock: int) -> None:
        raise ClockControlError("no permission")

    bench.device.lock_sm_clock = refuse


def _tells_nothing(bench: Any) -> None:
    bench.device.energy_j = bench.device.power_w = lambda: SILENT


def _falls_silent_at_rest(bench: Any) -> None:
    sleep = bench.sleep

    def fall_silent(duration_s: float, poll: Any = None) -> None:
        _tells_nothing(bench)
        sleep(duration_s, poll)

    bench.sleep = fall_silent


def _falls_silent_when_it_waits(bench: Any) -> None:
    wait = bench.wait

    def fall_silent(duration_s: float, poll: Any = None) -> None:
        _tells_nothing(bench)
        wait(duration_s, poll)

    bench.wait = fall_silent


def _runs_at_another_clock(bench: Any) -> None:
    bench.device.state = lambda: State(sm_clock_mhz=600, temperature_c=50.0, throttle=Throttle(0))


FAULTS = {
    _refuses_clocks: "no permission",
    _tells_nothing: "no energy that can be believed",
    _falls_silent_at_rest: "idle power cannot be measured",
    _falls_silent_when_it_waits: "wait power cannot be measured",
    _runs_at_another_clock: "nothing could be measured: asked for 1[0-9]+ MHz, ran at 600 MHz",
}


class Run:
    """Three ranks, of which one has a fault."""

    def __init__(self, folder: Path, fault: Callable[..., None], *, allow_partial: bool) -> None:
        self._folder, self._allow_partial = folder, allow_partial
        wire = Wire()
        self.warned: list[list[str]] = [[] for _ in range(RANKS)]
        self.teams = [Rank(wire, rank) for rank in range(RANKS)]
        self.benches: list[Any] = [
            open_simulated_bench("a100-sxm4-80gb", number=rank, seed=rank) for rank in range(RANKS)
        ]
        self.waits = [0] * RANKS
        fault(self.benches[BROKEN])
        for rank, bench in enumerate(self.benches):
            bench.wait = self._counted(rank, bench.wait)

    def _counted(self, rank: int, wait: Callable[..., None]) -> Callable[..., None]:
        def count(duration_s: float, poll: Any = None) -> None:
            self.waits[rank] += 1
            wait(duration_s, poll)

        return count

    def outcomes(self) -> list[Profile | Exception | None]:
        """What each rank ends with."""
        with ThreadPoolExecutor(RANKS) as pool:
            return list(pool.map(self._outcome, range(RANKS)))

    def _outcome(self, rank: int) -> Profile | Exception | None:
        with Partial(self._folder / f"{rank}.partial", "digest", "a test") as partial:
            try:
                return _shard(self._job(rank), partial, rank)
            except Exception as error:
                return error

    def _job(self, rank: int) -> Job:
        settings = Settings(clocks_mhz=(1410, 1200), windows=2, soak_s=5.0, early_stop=False)
        return Job(
            bench=self.benches[rank],
            workload=_workload(),
            settings=settings,
            progress=lambda *_: None,
            say=lambda _: None,
            warn=self.warned[rank].append,
            team=self.teams[rank],
            peers=self.teams[rank],
            allow_partial=self._allow_partial,
        )


def _workload() -> Workload:
    kernel = Kernel(name="product", flops=3e11, memory_bytes=1e9, matrix=True)
    partition = Partition(name="layer", kernels=(KernelUse(kernel=kernel),))
    op = WorkloadOp(stage=0, chunk=0, kind=OpKind.FORWARD, partitions=(PartitionUse(partition=partition),))
    return Workload(name="layers", ops=(op,), stages=1)


@pytest.mark.parametrize("fault", FAULTS)
def test_all_ranks_stop_with_one_line(tmp_path: Path, fault: Callable[..., None]) -> None:
    run = Run(tmp_path, fault, allow_partial=False)
    outcomes = run.outcomes()
    assert {type(one) for one in outcomes} == {AgreedError}
    (words,) = {str(one) for one in outcomes}
    assert words.startswith(f"rank {BROKEN}: ")
    assert words.endswith(
        "; all ranks stop and nothing is left set; --allow-partial goes on without such ranks"
    )
    assert re.search(FAULTS[fault], words)
    assert len({team.spoken for team in run.teams}) == 1
    assert all(bench.device.find_clocks().locked_mhz is None for bench in run.benches)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_others_finish_where_that_is_allowed(tmp_path: Path, fault: Callable[..., None]) -> None:
    run = Run(tmp_path, fault, allow_partial=True)
    outcomes = run.outcomes()
    assert [type(one) for one in outcomes] == [Profile, type(None), Profile]
    (warning,) = [one for one in run.warned[BROKEN] if "left out" in one]
    assert re.search(FAULTS[fault], warning)
    assert len({team.spoken for team in run.teams}) == 1
    assert run.waits == [2 * WINDOWS] * RANKS  # else a rank would wait for a turn that never comes
    assert all(bench.device.find_clocks().locked_mhz is None for bench in run.benches)
