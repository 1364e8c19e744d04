from itertools import pairwise

import pytest

from energyopt.profiler.simulation.costs import kernel_costs, operate, standing_costs
from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.workloads.interface import Kernel


def test_below_the_limit_the_clock_asked_for_holds(a100: GpuSpec, product: Kernel) -> None:
    costs = kernel_costs(a100, product)
    for index, clock in enumerate(costs.sm_clock_mhz):
        found = operate(costs, index, 1e6, 1.0)
        assert (found.sm_clock_mhz, found.capped) == (clock, False)
        assert found.power_w == costs.power_w[index] + costs.leakage_w[index]


def test_above_the_limit_the_mean_power_is_the_limit(a100: GpuSpec, product: Kernel) -> None:
    costs = kernel_costs(a100, product)
    top = len(costs.power_w) - 1
    for limit_w in range(150, 400, 7):
        found = operate(costs, top, float(limit_w), 1.0)
        assert found.capped
        assert found.power_w == pytest.approx(limit_w)
        assert costs.sm_clock_mhz[0] < found.sm_clock_mhz < costs.sm_clock_mhz[top]


def test_a_limit_is_used_up_and_no_more(a100: GpuSpec, product: Kernel) -> None:
    # a higher limit never runs slower, and asking for more than the limit allows changes nothing
    costs = kernel_costs(a100, product)
    top = len(costs.power_w) - 1
    speeds = [operate(costs, top, float(limit_w), 1.0).runs_per_s for limit_w in range(100, 500, 5)]
    assert all(slow <= fast for slow, fast in pairwise(speeds))
    assert operate(costs, top, 300.0, 1.0) == operate(costs, top - 3, 300.0, 1.0)


def test_a_warm_chip_leaks_more_and_is_capped_lower(a100: GpuSpec, product: Kernel) -> None:
    costs = kernel_costs(a100, product)
    top = len(costs.power_w) - 1
    cold, warm = (operate(costs, top, 300.0, warmth) for warmth in (0.7, 1.4))
    assert warm.sm_clock_mhz < cold.sm_clock_mhz
    assert warm.power_w == pytest.approx(cold.power_w)


def test_no_limit_goes_below_the_lowest_clock(a100: GpuSpec, product: Kernel) -> None:
    costs = kernel_costs(a100, product)
    for asked in (0, 40):
        found = operate(costs, asked, 1.0, 1.0)
        assert (found.sm_clock_mhz, found.capped) == (a100.clocks.lowest_mhz, True)
        assert found.power_w == costs.power_w[0] + costs.leakage_w[0]


def test_waiting_finishes_nothing_and_draws_less_than_work(a100: GpuSpec, product: Kernel) -> None:
    waiting, working = standing_costs(a100, a100.power.wait_share), kernel_costs(a100, product)
    assert set(waiting.runs_per_s) == {0.0}
    assert all(wait < work for wait, work in zip(waiting.power_w, working.power_w, strict=True))
