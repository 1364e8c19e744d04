"""Whole plans whose operations run their partitions at different clocks: files, bounds and savings."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from energyopt.planner.composition.switching import SwitchCost
from energyopt.planner.composition.table import Composition
from energyopt.planner.frontier import plan_and_weigh, plan_frontier
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.selection import by_deadline, to_plan
from energyopt.planner.solve import Effort
from energyopt.schemas.errors import RequestError
from energyopt.schemas.frontier import Frontier, read_frontier, write_frontier
from energyopt.schemas.frontier_points import SAVINGS
from energyopt.schemas.plan import read_plan, write_plan

MakeJob = Callable[..., Any]
ORDER = ("embedding", "attention", "mlp")
FREE = SwitchCost(time_s=0.0, energy_j=0.0)
QUICK = SwitchCost(time_s=0.002, energy_j=0.2)


def _ordered(job: Any) -> Any:
    keys = {op.key for op in job.schedule.ops}
    metadata = replace(job.profile.metadata, partition_order=dict.fromkeys(keys, ORDER))
    return replace(job.profile, metadata=metadata), job.pipeline, job.schedule


def _planned(job: Any, cost: SwitchCost | None) -> Frontier:
    return plan_frontier(*job, points=6, effort=Effort.QUICK, composition=Composition(most=0, switch=cost))


def _own_clocks(frontier: Frontier) -> int:
    """How many options have partitions at clocks of their own."""
    options = (option for found in frontier.options.values() for option in found)
    return sum(any(config.sm_clock_mhz for _, config in option.partitions) for option in options)


@pytest.mark.parametrize("whole", [None, 1.1])
@pytest.mark.parametrize("cost", [FREE, QUICK])
def test_plans_and_frontiers_keep_the_clocks_of_partitions(
    partition_job: MakeJob, tmp_path: Path, cost: SwitchCost, whole: float | None
) -> None:
    frontier = _planned(_ordered(partition_job(3, whole=whole)), cost)
    assert _own_clocks(frontier)
    assert (frontier.switch_time_s, frontier.switch_energy_j) == (cost.time_s, cost.energy_j)
    write_frontier(tmp_path / "f.parquet", frontier)
    assert read_frontier(tmp_path / "f.parquet") == frontier
    used = 0
    for index, point in enumerate(frontier.points):
        plan = to_plan(frontier, by_deadline(frontier, point.iteration_time_s))
        write_plan(tmp_path / "p.json", plan)
        assert read_plan(tmp_path / "p.json") == plan
        planned = [op for stage in plan.stages for op in stage]
        for op, option in zip(planned, frontier.chosen_options(index), strict=True):
            assert (op.sm_clock_mhz, op.partitions) == (option.sm_clock_mhz, option.partitions)
            used += any(config.sm_clock_mhz for _, config in op.partitions)
    assert used


@pytest.mark.parametrize("seed", range(2))
def test_bounds_hold_for_plans_of_one_clock_and_savings_add_up(partition_job: MakeJob, seed: int) -> None:
    job = _ordered(partition_job(seed))
    alone, beside = _planned(job, None), _planned(job, QUICK)
    assert beside.points[0].iteration_time_s <= alone.points[0].iteration_time_s
    for point in beside.points:
        expected_j = beside.max_clock.energy_j - point.energy_j
        assert sum(getattr(point, name) for name in SAVINGS) == pytest.approx(expected_j, abs=1e-8)
        for one in alone.points:  # it is a plan of these options too, and can wait for the rest of the time
            spare_s = point.iteration_time_s - one.iteration_time_s
            waited_j = one.energy_j + alone.wait_power_w * alone.gpus * spare_s
            assert spare_s < 0 or point.lower_bound_j <= waited_j * (1 + 1e-9)


def test_changes_inside_operations_are_not_counted_and_so_not_limited(partition_job: MakeJob) -> None:
    job, composition = _ordered(partition_job(1)), Composition(switch=QUICK)
    with pytest.raises(RequestError, match="--max-switches"):
        plan_frontier(*job, composition=composition, limits=SwitchLimits(max_switches=3))
    with pytest.raises(RequestError, match="--switch-tradeoff"):
        plan_and_weigh(*job, composition=composition)
