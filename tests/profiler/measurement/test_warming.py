from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent
from energyopt.profiler.benches.simulated import open_simulated_bench
from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.measurement.warming import (
    LEAST_STEP_S,
    TRIAL_S,
    UNSEEN_S,
    longest_soak_s,
    run_time_s,
    soak,
)
from energyopt.profiler.workloads.interface import Collective, Communication, Kernel

Scripted = Callable[..., Any]
NAMES = "abc"
KERNELS = tuple(Kernel(name=name, flops=1e9, memory_bytes=1e6) for name in NAMES)
COLLECTIVE = Kernel(
    name="all_reduce",
    flops=0.0,
    memory_bytes=1e6,
    communication=Communication(collective=Collective.ALL_REDUCE, message_bytes=1e6, group="tensor", ranks=2),
)


def noting(bench: Any) -> list[tuple[str, int, float]]:
    """(kernel, repeats, seconds) of each run from now on."""
    done: list[tuple[str, int, float]] = []
    run = bench.run

    def note(kernel: Kernel, repeats: int, poll: Any = None) -> float:
        elapsed_s: float = run(kernel, repeats, poll)
        done.append((kernel.name, repeats, elapsed_s))
        return elapsed_s

    bench.run = note
    return done


def warming_up(bench: Any, temperature_c: Callable[[float], Any]) -> None:
    """Give the scripted board a temperature at each time."""
    state = bench.device.state
    bench.device.state = lambda: replace(state(), temperature_c=temperature_c(bench.now_s()))


@pytest.mark.parametrize(("run_s", "repeats"), [(20e-6, 2500), (1e-3, 50), (0.04, 2), (3.0, 1)])
def test_a_run_is_timed_over_fifty_milliseconds_after_a_first_one(
    run_s: float, repeats: int, scripted: Scripted, product: Kernel
) -> None:
    bench = scripted(run_s=run_s)
    done = noting(bench)
    assert run_time_s(bench, product) == pytest.approx(run_s)
    assert [one[1] for one in done] == [1, pytest.approx(repeats, abs=1)]
    assert done[1][2] >= 0.999 * TRIAL_S


def test_a_first_run_that_takes_long_is_not_believed(scripted: Scripted, product: Kernel) -> None:
    """It pays for what is compiled or loaded at the first launch: 0.3 s, where later runs take 1 ms."""
    bench = scripted()
    started: list[str] = []
    bench.before_run = lambda kernel: (
        setattr(bench, "run_s", 1e-3 if started else 0.3) or started.append(kernel.name)
    )
    assert run_time_s(bench, product) == pytest.approx(1e-3)


def test_ranks_of_a_collective_time_it_equally_often(scripted: Scripted, product: Kernel) -> None:
    bench, asked = scripted(), []
    done = noting(bench)
    run_time_s(bench, product, lambda repeats: asked.append(repeats) or repeats + 7)
    assert asked == [1, pytest.approx(0.05 / 8e-3, abs=1)]  # the first took eight runs
    assert [one[1] for one in done] == [one + 7 for one in asked]


def test_all_kernels_that_compute_warm_the_board_in_turn(scripted: Scripted) -> None:
    """For equal times, as the sweep will; a collective needs peers that may not be there."""
    bench = scripted()
    warming_up(bench, lambda now_s: 40.0 + now_s)  # never steady
    done = noting(bench)
    soak(bench, (*KERNELS, COLLECTIVE), 18.0)
    turns = [(name, sum(one[2] for one in runs)) for name, runs in groupby(done, key=lambda one: one[0])]
    assert "".join(name for name, _ in turns[:9]) == NAMES * 3
    each_s = LEAST_STEP_S / len(NAMES)
    for _, turn_s in turns[:9]:
        assert each_s <= turn_s <= each_s + 2 * TRIAL_S
    assert set(Counter(one[0] for one in done)) == set(NAMES)


def test_warming_ends_where_the_temperature_stands_still(scripted: Scripted) -> None:
    bench = scripted()
    warming_up(bench, lambda now_s: min(40.0 + now_s, 60.0))
    soak(bench, KERNELS, 500.0)
    assert 20.0 < bench.now_s() < 20.0 + 2 * (LEAST_STEP_S + 6 * TRIAL_S)


@pytest.mark.parametrize(
    ("longest_s", "expected_s"), [(500.0, UNSEEN_S), (UNSEEN_S, UNSEEN_S), (12.0, 12.0), (0.0, 0.0)]
)
def test_a_board_without_a_thermometer_is_warmed_for_a_fixed_time(
    longest_s: float, expected_s: float, scripted: Scripted
) -> None:
    bench = scripted()
    warming_up(bench, lambda _: Absent("not supported"))
    soak(bench, KERNELS, longest_s)
    assert bench.now_s() == pytest.approx(expected_s, abs=3 * TRIAL_S)


def test_a_thermometer_that_fails_at_times_ends_nothing(scripted: Scripted) -> None:
    bench, answers = scripted(), iter([40.0, 40.0, Absent("busy"), 50.0, 50.5])
    warming_up(bench, lambda _: next(answers))
    soak(bench, KERNELS, 500.0)
    assert next(answers, None) is None
    assert bench.now_s() > 2 * LEAST_STEP_S


def test_where_nothing_computes_nothing_is_run(scripted: Scripted) -> None:
    bench = scripted()
    soak(bench, (COLLECTIVE,), 60.0)
    assert bench.now_s() == 0.0


def test_a_mix_makes_a_board_less_hot_than_its_heaviest_kernel(product: Kernel, stream: Kernel) -> None:
    ends_c = []
    for kernels in ((product,), (product, stream)):
        bench = open_simulated_bench("a100-sxm4-80gb", noise=False)
        soak(bench, kernels, 120.0)
        ends_c.append(bench.device.state().temperature_c)
        assert bench.now_s() < 120.0
    assert 40.0 < ends_c[1] < ends_c[0] - 3.0


def test_warming_takes_a_tenth_of_a_budget_at_most() -> None:
    settings = Settings(clocks_mhz=(), soak_s=60.0)
    assert longest_soak_s(settings) == 60.0
    assert longest_soak_s(replace(settings, budget_s=300.0)) == 30.0
    assert longest_soak_s(replace(settings, budget_s=3000.0)) == 60.0
