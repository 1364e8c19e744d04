"""What a profile says that a plan's clocks cost, stage by stage, on one GPU of each stage."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from energyopt.planner.options import OptionTable, measured_options
from energyopt.planner.simulation import simulate
from energyopt.schemas.errors import NotComparableError, ProfileError
from energyopt.schemas.ops import Op, OpKey, Schedule
from energyopt.schemas.options import Option
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.planned_ops import PlannedOp
from energyopt.schemas.profile import Profile

REACH = 0.1
"""How far beyond its outermost rows, as a share of their clock, a profile's trend is trusted."""
MOST_BEYOND = 0.05
"""The largest share of operations that may run further out."""
_BASE = 0.05  # the outermost trend is that between rows which lie at least this share of the clock apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """The cost of a plan by a profile.

    stage_energy_j: of one GPU of each stage. between, beyond: operations whose clock has no row and lies between
    two, or beyond all.
    """

    iteration_time_s: float
    stage_busy_s: tuple[float, ...]
    stage_energy_j: tuple[float, ...]
    costs: dict[tuple[OpKey, int], Option]
    between: int
    beyond: int


def predict(
    stages: tuple[tuple[PlannedOp, ...], ...], pipeline: Pipeline, schedule: Schedule, profile: Profile
) -> Predicted:
    """Price a plan's clocks with a profile's rows, its P2P time and its fixed time (the pipeline's if it has none).

    A clock between two rows is interpolated, one beyond them follows the outermost rows' trend.

    Raises:
        NotComparableError: the plan's operations are not the schedule's.
        ProfileError: no rows for an operation, or more than 5 % of the operations lie far beyond the rows.
    """
    asked = _clocks(stages, schedule)
    table = measured_options(profile, {op.key for op in schedule.ops})
    _refuse_far(table, schedule, asked)
    costs = {
        (op.key, clock): option_at(table[op.key], clock)
        for op, clock in zip(schedule.ops, asked, strict=True)
    }
    options = [costs[op.key, clock] for op, clock in zip(schedule.ops, asked, strict=True)]
    meta = profile.metadata
    timeline = simulate(
        schedule,
        [one.time_s for one in options],
        pipeline.p2p_time_s if meta.p2p_time_s is None else meta.p2p_time_s,
        pipeline.fixed_time_s if meta.fixed_time_s is None else meta.fixed_time_s,
    )
    busy_s = _per_stage(schedule, (one.time_s for one in options))
    drawn_j = _per_stage(schedule, (one.energy_j for one in options))
    rows = [[one.sm_clock_mhz for one in table[op.key]] for op in schedule.ops]
    missing = [clock for clock, known in zip(asked, rows, strict=True) if clock not in known]
    beyond = sum(not known[0] <= clock <= known[-1] for clock, known in zip(asked, rows, strict=True))
    return Predicted(
        iteration_time_s=timeline.iteration_time_s,
        stage_busy_s=tuple(busy_s),
        stage_energy_j=tuple(
            energy_j + meta.wait_power_w * (timeline.iteration_time_s - time_s)
            for energy_j, time_s in zip(drawn_j, busy_s, strict=True)
        ),
        costs=costs,
        between=len(missing) - beyond,
        beyond=beyond,
    )


def option_at(options: tuple[Option, ...], sm_clock_mhz: int) -> Option:
    """Time and energy at a clock: its row, or by a straight line through two (options stand by rising clock)."""
    clocks = [one.sm_clock_mhz for one in options]
    place = bisect_left(clocks, sm_clock_mhz)
    if place < len(clocks) and clocks[place] == sm_clock_mhz:
        return options[place]
    left, right = _around(options, place)
    run = right.sm_clock_mhz - left.sm_clock_mhz
    share = (sm_clock_mhz - left.sm_clock_mhz) / run if run else 0.0
    return Option(
        sm_clock_mhz=sm_clock_mhz,
        time_s=left.time_s + share * (right.time_s - left.time_s),
        energy_j=left.energy_j + share * (right.energy_j - left.energy_j),
    )


def _around(options: tuple[Option, ...], place: int) -> tuple[Option, Option]:
    """The rows that decide at `place`: its neighbours, or the outermost row and one some way inside."""
    if 0 < place < len(options):
        return options[place - 1], options[place]
    edge = options[0] if place == 0 else options[-1]
    inside = options if place == 0 else options[::-1]
    far = [one for one in inside if abs(one.sm_clock_mhz / edge.sm_clock_mhz - 1) >= _BASE]
    return edge, far[0] if far else inside[-1]


def _refuse_far(table: OptionTable, schedule: Schedule, asked: list[int]) -> None:
    far = [
        (op, clock)
        for op, clock in zip(schedule.ops, asked, strict=True)
        if not (1 - REACH) * table[op.key][0].sm_clock_mhz
        <= clock
        <= (1 + REACH) * table[op.key][-1].sm_clock_mhz
    ]
    if len(far) > MOST_BEYOND * len(asked):
        op, clock = far[0]
        known = [one.sm_clock_mhz for one in table[op.key]]
        raise ProfileError(
            f"{len(far)} of {len(asked)} operations run far from any row of the profile: {op.key} at {clock} MHz, "
            f"where it has {known[0]} to {known[-1]} MHz; profile, or calibrate with a run at, such clocks"
        )


def _clocks(stages: tuple[tuple[PlannedOp, ...], ...], schedule: Schedule) -> list[int]:
    """The plan's clock for each operation of the schedule."""
    planned = {(stage, *_name(op)): op.sm_clock_mhz for stage, ops in enumerate(stages) for op in ops}
    asked = [planned.get((op.stage, op.kind, op.chunk, op.microbatch)) for op in schedule.ops]
    if None in asked or len(planned) != len(asked):
        raise NotComparableError(
            f"the plan has {len(planned)} operations, schedule {schedule.name} {len(asked)}, "
            f"{sum(one is not None for one in asked)} of them in common: it is the plan of another schedule"
        )
    return [one for one in asked if one is not None]


def _name(op: PlannedOp) -> tuple[str, int, int]:
    return op.op, op.chunk, op.microbatch


def _per_stage(schedule: Schedule, values: Iterable[float]) -> list[float]:
    found = [0.0] * schedule.stages
    for op, value in zip(schedule.ops, values, strict=True):
        found[op.stage] += value
    return found


def stages_of(schedule: Schedule, clocks: Iterable[int]) -> tuple[tuple[PlannedOp, ...], ...]:
    """The stages of a plan that gives each operation of a schedule its clock."""
    found: list[list[PlannedOp]] = [[] for _ in range(schedule.stages)]
    for op, clock in zip(schedule.ops, clocks, strict=True):
        found[op.stage].append(_planned(op, clock))
    return tuple(tuple(ops) for ops in found)


def _planned(op: Op, clock: int) -> PlannedOp:
    return PlannedOp(
        op=op.kind,
        chunk=op.chunk,
        microbatch=op.microbatch,
        sm_clock_mhz=clock,
        backward_chunk=op.backward_chunk,
        backward_microbatch=op.backward_microbatch,
    )
