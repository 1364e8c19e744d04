"""What a profile says that a plan costs, stage by stage, on one GPU of each stage."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from energyopt.planner.simulation import simulate
from energyopt.planner.verification.pricing import PLAIN_MANNER, Prices, manner_of
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


class UnpricedError(ProfileError):
    """The profile does not tell what operations cost that are carried out as the plan wants it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """The cost of a plan by a profile.

    stage_energy_j: of one GPU of each stage. between, beyond: operations whose clock has no row and lies between
    two, or beyond all.
    """

    iteration_time_s: float
    stage_busy_s: tuple[float, ...]
    stage_energy_j: tuple[float, ...]
    between: int
    beyond: int


def predict(
    stages: tuple[tuple[PlannedOp, ...], ...], pipeline: Pipeline, schedule: Schedule, profile: Profile
) -> Predicted:
    """Price a plan with a profile's rows, its P2P time and its fixed time (the pipeline's if it has none).

    A clock between two rows is interpolated, one beyond them follows the outermost rows' trend.

    Raises:
        NotComparableError: the plan's operations are not the schedule's.
        UnpricedError: operations cut their microbatch, or run partitions, as the profile has no rows for.
        ProfileError: no rows for an operation, or more than 5 % of the operations lie far beyond the rows.
    """
    planned = _planned_ops(stages, schedule)
    series = _series(schedule, planned, Prices(profile, (op.key for op in schedule.ops)))
    _refuse_far(series, schedule, planned)
    options = [option_at(known, op.sm_clock_mhz) for known, op in zip(series, planned, strict=True)]
    meta = profile.metadata
    timeline = simulate(
        schedule,
        [one.time_s for one in options],
        pipeline.p2p_time_s if meta.p2p_time_s is None else meta.p2p_time_s,
        pipeline.fixed_time_s if meta.fixed_time_s is None else meta.fixed_time_s,
    )
    busy_s = _per_stage(schedule, (one.time_s for one in options))
    drawn_j = _per_stage(schedule, (one.energy_j for one in options))
    between, beyond = _without_row(series, planned)
    return Predicted(
        iteration_time_s=timeline.iteration_time_s,
        stage_busy_s=tuple(busy_s),
        stage_energy_j=tuple(
            energy_j + meta.wait_power_w * (timeline.iteration_time_s - time_s)
            for energy_j, time_s in zip(drawn_j, busy_s, strict=True)
        ),
        between=between,
        beyond=beyond,
    )


def planned_times_s(
    stages: tuple[tuple[PlannedOp, ...], ...], profile: Profile
) -> dict[tuple[OpKey, int], float | None]:
    """By key and clock what a plan's operations take in the mean, s; None where the profile does not tell."""
    planned = [(OpKey(stage, op.chunk, op.op), op) for stage, ops in enumerate(stages) for op in ops]
    prices = Prices(profile, (key for key, _ in planned))
    found: dict[tuple[OpKey, int], list[float | None]] = {}
    for key, op in planned:
        known = _known(key, op, prices)
        time_s = None if isinstance(known, str) else option_at(known, op.sm_clock_mhz).time_s
        found.setdefault((key, op.sm_clock_mhz), []).append(time_s)
    return {
        place: None if None in times else sum(one or 0.0 for one in times) / len(times)
        for place, times in found.items()
    }


def _known(key: OpKey, op: PlannedOp, prices: Prices) -> tuple[Option, ...] | str:
    """The options over clocks that tell what an operation costs, or why there are none.

    Configurations of partitions are not extrapolated: at other clocks others are best, and profiles may hold each
    at a few clocks only.
    """
    manner = manner_of(op)
    series = prices.series(key, manner)
    if not series.options:
        return str(series.why)
    low, high = series.options[0].sm_clock_mhz, series.options[-1].sm_clock_mhz
    if manner != PLAIN_MANNER and not low <= op.sm_clock_mhz <= high:
        return f"it has the partitions of the {key}, as planned, at {low} to {high} MHz, not at {op.sm_clock_mhz}"
    return series.options


def _series(schedule: Schedule, planned: Sequence[PlannedOp], prices: Prices) -> list[tuple[Option, ...]]:
    found = [_known(one.key, op, prices) for one, op in zip(schedule.ops, planned, strict=True)]
    reasons = [one for one in found if isinstance(one, str)]
    if reasons:
        raise UnpricedError(
            f"the profile cannot price {len(reasons)} of {len(found)} operations: {reasons[0]}; give the profile "
            "that the plan was made from, or none, to judge the plan's own prediction"
        )
    return [one for one in found if not isinstance(one, str)]


def _without_row(series: Sequence[tuple[Option, ...]], planned: Sequence[PlannedOp]) -> tuple[int, int]:
    """How many operations run at a clock between rows, and beyond all."""
    between = beyond = 0
    for known, op in zip(series, planned, strict=True):
        clocks, clock = [one.sm_clock_mhz for one in known], op.sm_clock_mhz
        outside = not clocks[0] <= clock <= clocks[-1]
        beyond += outside
        between += clock not in clocks and not outside
    return between, beyond


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


def _refuse_far(
    series: Sequence[tuple[Option, ...]], schedule: Schedule, planned: Sequence[PlannedOp]
) -> None:
    far = [
        (one, known, op.sm_clock_mhz)
        for one, known, op in zip(schedule.ops, series, planned, strict=True)
        if not (1 - REACH) * known[0].sm_clock_mhz <= op.sm_clock_mhz <= (1 + REACH) * known[-1].sm_clock_mhz
    ]
    if len(far) > MOST_BEYOND * len(planned):
        first, known, clock = far[0]
        raise ProfileError(
            f"{len(far)} of {len(planned)} operations run far from any row of the profile: {first.key} at {clock} "
            f"MHz, where it has {known[0].sm_clock_mhz} to {known[-1].sm_clock_mhz} MHz; profile, or calibrate "
            "with a run at, such clocks"
        )


def _planned_ops(stages: tuple[tuple[PlannedOp, ...], ...], schedule: Schedule) -> list[PlannedOp]:
    """The plan's words on each operation of the schedule."""
    planned = {(stage, *_name(op)): op for stage, ops in enumerate(stages) for op in ops}
    found = [planned.get((op.stage, op.kind, op.chunk, op.microbatch)) for op in schedule.ops]
    if None in found or len(planned) != len(found):
        raise NotComparableError(
            f"the plan has {len(planned)} operations, schedule {schedule.name} {len(found)}, "
            f"{sum(one is not None for one in found)} of them in common: it is the plan of another schedule"
        )
    return [one for one in found if one is not None]


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
