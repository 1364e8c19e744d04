import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

import pytest

from energyopt.applier.devices.interface import Throttle
from energyopt.profiler.measurement.settings import Timing
from energyopt.profiler.measurement.sweep import PAUSE_S, TRIES, Sweep
from energyopt.profiler.measurement.window import Window
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

CLOCKS = (1410, 1200, 1005)
NAMES = "abcdef"

Scripted = Callable[..., Any]
MakeSweep = Callable[..., Sweep]


@pytest.fixture
def many() -> Workload:
    """An op of six kernels, some of which stand in it twice."""
    uses = tuple(
        KernelUse(kernel=Kernel(name=name, flops=1e9, memory_bytes=1e6)) for name in NAMES + NAMES[:2]
    )
    partition = Partition(name="p", kernels=uses)
    op = WorkloadOp(
        stage=0, chunk=0, kind=OpKind.FORWARD, partitions=(PartitionUse(partition=partition, count=1),)
    )
    return Workload(name="many", ops=(op,), stages=1)


def order_of(sweep: Sweep) -> list[tuple[int, int, str]]:
    """(round, clock, kernel) of the windows as they were kept."""
    kept = [value for kind, value in sweep.kept.kept if kind == "window"]  # type: ignore[attr-defined]
    return [(one["round"], one["sm_clock_mhz"], one["kernel"]) for one in kept]


def test_every_round_goes_through_all_clocks_downward_with_each_kernel_once(
    scripted: Scripted, timing: Timing, make_sweep: MakeSweep, many: Workload
) -> None:
    bench = scripted()
    sweep = make_sweep(bench, CLOCKS, timing, windows=3, workload=many)
    assert sweep.run() == CLOCKS
    order = order_of(sweep)
    assert set(Counter(order).values()) == {1}
    assert [key for key, _ in groupby(one[:2] for one in order)] == [
        (number, clock) for number in range(3) for clock in CLOCKS
    ]
    assert len(order) == 3 * len(CLOCKS) * len(NAMES)
    assert bench.device.asked == list(CLOCKS) * 3


def test_the_order_of_kernels_differs_between_rounds_and_clocks_and_follows_the_seed(
    scripted: Scripted, timing: Timing, make_sweep: MakeSweep, many: Workload
) -> None:
    def run(seed: int) -> list[tuple[int, int, str]]:
        sweep = make_sweep(scripted(), CLOCKS, timing, windows=3, workload=many, seed=seed)
        sweep.run()
        return order_of(sweep)

    first = run(4)
    orders = {"".join(one[2] for one in group) for _, group in groupby(first, key=lambda one: one[:2])}
    assert len(orders) >= 8  # of nine draws among 720 orders
    assert run(4) == first
    assert run(5) != first


def test_a_throttled_board_is_left_alone_before_the_window_is_tried_again(
    scripted: Scripted, timing: Timing, make_sweep: MakeSweep, many: Workload
) -> None:
    bench = scripted(throttle=lambda now_s: Throttle.SW_THERMAL if now_s < PAUSE_S else Throttle(0))
    sweep = make_sweep(bench, (1410,), timing, windows=1, workload=many)
    sweep.run()
    assert bench.slept_s == [PAUSE_S]
    windows = [one for several in sweep.windows.values() for one in several]
    assert all(one.usable for one in windows)
    assert sorted(one.tries for one in windows) == [1] * (len(NAMES) - 1) + [2]


def test_a_window_that_is_rejected_for_another_reason_is_tried_again_at_once(
    scripted: Scripted, timing: Timing, make_sweep: MakeSweep, many: Workload
) -> None:
    bench = scripted(lies_mhz=100, throttle=lambda _: Throttle.SW_POWER_CAP)
    sweep = make_sweep(bench, (1410,), timing, windows=1, workload=many)
    sweep.run()
    assert bench.slept_s == [0.0] * (TRIES - 1) * len(NAMES)
    for windows in sweep.windows.values():
        assert [one.rejected for one in windows] == [
            "asked for 1410 MHz, ran at 1510 MHz, and no throttling explains it"
        ]
        assert [one.tries for one in windows] == [TRIES]


def test_the_board_rests_between_windows_where_that_was_asked_for(
    scripted: Scripted, make_sweep: MakeSweep, many: Workload
) -> None:
    timing = Timing(tick_s=0.02, window_s=0.5, warm_up_s=0.1, cool_down_s=2.0, fine_s=1.25e-3)
    bench = scripted()
    make_sweep(bench, (1410,), timing, windows=1, workload=many).run()
    assert bench.slept_s == [2.0] * len(NAMES)


def test_what_an_earlier_run_left_is_not_measured_again(
    scripted: Scripted, timing: Timing, make_sweep: MakeSweep, many: Workload
) -> None:
    def earlier(kernel: str, clock: int, number: int) -> Window:
        return Window(
            kernel=kernel,
            sm_clock_mhz=clock,
            round=number,
            time_s=1e-3,
            energy_j=0.2,
            energy_error_j=0.0,
            repeats=500,
        )

    windows = {(name, 1410): [earlier(name, 1410, 0)] for name in NAMES}
    windows["a", 1200] = [earlier("a", 1200, 0)]
    bench = scripted()
    sweep = make_sweep(bench, CLOCKS, timing, windows=1, workload=many)
    sweep.windows.update(windows)
    sweep.run()
    order = order_of(sweep)
    assert len(order) == len(set(order)) == 2 * len(NAMES) - 1
    assert (0, 1200, "a") not in order
    assert bench.device.asked == [1200, 1005]


def test_without_locks_no_clock_is_set_and_none_is_required(
    scripted: Scripted, timing: Timing, make_sweep: MakeSweep, many: Workload
) -> None:
    bench = scripted(clock_mhz=1234)
    sweep = make_sweep(bench, (1410,), timing, windows=1, workload=many, locks=None)
    sweep.run()
    assert bench.device.asked == []
    assert all(one.usable for windows in sweep.windows.values() for one in windows)


def test_a_refused_clock_ends_the_sweep_with_its_own_words(
    scripted: Scripted, timing: Timing, make_sweep: MakeSweep, many: Workload
) -> None:
    class Refusing:
        def lock(self, sm_clock_mhz: int) -> None:
            raise ClockControlError(f"no right to set {sm_clock_mhz} MHz")

    sweep = make_sweep(scripted(), CLOCKS, timing, workload=many, locks=Refusing())
    with pytest.raises(ClockControlError, match="no right to set 1410 MHz"):
        sweep.run()


ROUND_S = len(CLOCKS) * len(NAMES) * (0.1 + 0.5)  # with timing's warm-up and window


@pytest.mark.parametrize(
    ("rounds_s", "rounds"), [(None, 5), (5.6, 5), (4.5, 4), (3.5, 3), (2.5, 2), (1.0, 2), (0.0, 2)]
)
def test_rounds_that_would_overrun_a_budget_are_left_out_but_for_two(
    rounds_s: float | None,
    rounds: int,
    scripted: Scripted,
    timing: Timing,
    make_sweep: MakeSweep,
    many: Workload,
) -> None:
    """Two windows are the least that give an error bar."""
    bench = scripted()
    ends_s = None if rounds_s is None else rounds_s * ROUND_S
    sweep = make_sweep(bench, CLOCKS, timing, windows=5, workload=many, ends_s=ends_s)
    assert sweep.run() == CLOCKS
    assert Counter(order_of(sweep)) == Counter(
        (number, clock, name) for number in range(rounds) for clock in CLOCKS for name in NAMES
    )
    if rounds > 2 and ends_s is not None:
        assert bench.now_s() <= ends_s


class Rank:
    """One rank of several that run in threads of one process, and agree as processes do."""

    def __init__(self, rank: int, values: list[Any], barrier: threading.Barrier) -> None:
        self.rank, self.size = rank, len(values)
        self._values, self._barrier = values, barrier

    def gather(self, value: Any) -> list[Any]:
        self._values[self.rank] = value
        self._barrier.wait(60)
        found = list(self._values)
        self._barrier.wait(60)
        return found


def test_all_ranks_leave_the_same_rounds_out(
    scripted: Scripted, timing: Timing, make_sweep: MakeSweep, many: Workload
) -> None:
    """The rank that has the least time decides, whichever it is; a board that is slower has less."""
    values, barrier = [None] * 3, threading.Barrier(3)
    sweeps = [
        make_sweep(
            scripted(run_s=run_s),
            CLOCKS,
            timing,
            windows=6,
            workload=many,
            team=Rank(rank, values, barrier),
            ends_s=3.5 * ROUND_S,
        )
        for rank, run_s in enumerate((1e-3, 1e-3, 0.24))  # of which one window takes 0.72 s
    ]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(Sweep.run, sweeps)) == [CLOCKS] * 3
    assert [max(one[0] for one in order_of(sweep)) for sweep in sweeps] == [1, 1, 1]
