"""Plans worked out again from nothing but the profile's rows, a clock for each operation, and the simulator."""

from collections.abc import Sequence
from dataclasses import dataclass

from energyopt.planner.simulation import iteration_energy_j, simulate
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.ops import OpKey, Schedule
from energyopt.schemas.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an iteration really takes, with one GPU per stage."""

    time_s: float
    energy_j: float


def cost_at_clocks(profile: Profile, schedule: Schedule, clocks_mhz: Sequence[int]) -> Cost:
    """Cost of an iteration with the given clock for each operation of `Schedule.ops`, as measured."""
    rows = {(row.stage, row.op, row.sm_clock_mhz): row for row in profile.rows}
    used = [rows[op.stage, op.kind, clock] for op, clock in zip(schedule.ops, clocks_mhz, strict=True)]
    time_s, energy_j = [row.time_s for row in used], [row.energy_j for row in used]
    timeline = simulate(schedule, time_s)
    total_j = iteration_energy_j(timeline, time_s, energy_j, profile.metadata.wait_power_w, schedule.stages)
    return Cost(time_s=timeline.iteration_time_s, energy_j=total_j)


def max_clock_cost(profile: Profile, schedule: Schedule) -> Cost:
    """Cost of an iteration with every operation at its highest measured clock."""
    highest: dict[OpKey, int] = {}
    for row in profile.rows:
        assert row.stage is not None
        key = OpKey(row.stage, 0, row.op)
        highest[key] = max(row.sm_clock_mhz, highest.get(key, 0))
    return cost_at_clocks(profile, schedule, [highest[op.key] for op in schedule.ops])


def frontier_clocks(frontier: Frontier) -> list[list[int]]:
    """For each plan of a frontier file the clock of each operation."""
    options = [frontier.options[op.key] for op in frontier.schedule.ops]
    return [
        [of_op[choice].sm_clock_mhz for of_op, choice in zip(options, point.choices, strict=True)]
        for point in frontier.points
    ]


def frontier_costs(profile: Profile, frontier: Frontier) -> list[Cost]:
    """Cost of each plan of a frontier file."""
    return [cost_at_clocks(profile, frontier.schedule, clocks) for clocks in frontier_clocks(frontier)]
