"""Choosing one point of a frontier, and turning it into the plan that a shim loads."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from energyopt.schemas.errors import RequestError
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.frontier_points import FrontierPoint
from energyopt.schemas.ops import Op
from energyopt.schemas.options import Option
from energyopt.schemas.plan import Alternative, Baseline, Plan, Prediction
from energyopt.schemas.planned_ops import PlannedOp, Stages

_DIGITS = 9  # of the numbers in a plan file
ROUNDING = 1e-12  # relative: a deadline printed and read again is still the same deadline
_SHOWN = 40  # characters of a request that a message repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A point of a frontier and the deadline that it was chosen for."""

    index: int
    deadline_s: float


def by_slowdown(frontier: Frontier, slowdown: float) -> Choice:
    """The cheapest point within `slowdown` times the max-clock baseline's iteration time."""
    _check_positive(slowdown, "--max-slowdown", "a factor")
    return _by_deadline(
        frontier,
        slowdown * frontier.max_clock.iteration_time_s,
        lambda least_s: f"raise --max-slowdown to {_up(least_s / frontier.max_clock.iteration_time_s)}",
    )


def by_deadline(frontier: Frontier, deadline_s: float) -> Choice:
    """The cheapest point that finishes an iteration in `deadline_s`; infinity gives the least energy."""
    _check_positive(deadline_s, "--deadline-s", "a time")
    return _by_deadline(frontier, deadline_s, lambda least_s: f"raise --deadline-s to {_up(least_s)}")


def by_energy_budget(frontier: Frontier, budget_j: float) -> Choice:
    """The fastest point whose iteration costs at most `budget_j`."""
    _check_positive(budget_j, "--energy-budget-j", "an energy")
    for index, point in enumerate(frontier.points):
        if point.energy_j <= budget_j * (1 + ROUNDING):
            return Choice(index=index, deadline_s=point.iteration_time_s)
    least = frontier.points[-1]
    asked, needed = _apart(budget_j, least.energy_j)
    raise RequestError(
        f"no plan costs at most {asked} J an iteration on {frontier.gpus} GPU(s): the least is "
        f"{needed} J in {least.iteration_time_s:.4f} s; raise --energy-budget-j to "
        f"{_up(least.energy_j)}"
    )


def by_power_cap(frontier: Frontier, power_w: float) -> Choice:
    """The fastest point whose average power, over all GPUs that the energy covers, is at most `power_w`."""
    _check_positive(power_w, "--power-cap-w", "a power")
    for index, point in enumerate(frontier.points):
        if point.average_power_w <= power_w * (1 + ROUNDING):
            return Choice(index=index, deadline_s=point.iteration_time_s)
    least = min(frontier.points, key=lambda point: point.average_power_w)
    asked, needed = _apart(power_w, least.average_power_w)
    raise RequestError(
        f"no plan draws at most {asked} W on average on {frontier.gpus} GPU(s): the least is "
        f"{needed} W in {least.iteration_time_s:.4f} s; raise --power-cap-w to "
        f"{_up(least.average_power_w)}"
    )


def by_name(frontier: Frontier, wanted: str) -> Choice:
    """The point with this number, counted from 0 for the fastest, or this name."""
    count = len(frontier.points)
    if wanted.isascii() and wanted.isdigit() and len(wanted) <= _SHOWN and int(wanted) < count:
        index = int(wanted)
        return Choice(index=index, deadline_s=frontier.points[index].iteration_time_s)
    for index, point in enumerate(frontier.points):
        if wanted in point.names:
            return Choice(index=index, deadline_s=point.iteration_time_s)
    names = [name for point in frontier.points for name in point.names]
    shown = wanted if len(wanted) <= _SHOWN else wanted[:_SHOWN] + "..."
    raise RequestError(f"there is no point {shown!r}; there are 0 to {count - 1}, {', '.join(names)}")


def to_plan(frontier: Frontier, choice: Choice, alternatives: int = 0) -> Plan:
    """The plan of a chosen point, with at most `alternatives` slower points that differ in clocks alone."""
    if alternatives < 0:
        raise RequestError(f"--alternatives must be at least 0, not {alternatives}")
    point = frontier.points[choice.index]
    return Plan(
        profile_sha256=frontier.profile_sha256,
        device_name=frontier.device_name,
        device_kind=frontier.device_kind,
        scope=frontier.scope,
        clock_switch_latency_s=frontier.clock_switch_latency_s,
        pipeline=frontier.pipeline,
        gpus=frontier.gpus,
        predicted=_prediction(frontier, point),
        max_clock=_baseline(frontier.max_clock),
        best_single_clock=_baseline(frontier.best_single_clock(choice.deadline_s * (1 + ROUNDING))),
        stages=_stages(frontier, point),
        alternatives=tuple(
            Alternative(predicted=_prediction(frontier, other), stages=_stages(frontier, other))
            for other in _slower(frontier, choice.index, alternatives)
        ),
    )


def _by_deadline(frontier: Frontier, deadline_s: float, advice: Callable[[float], str]) -> Choice:
    fitting = [
        index
        for index, point in enumerate(frontier.points)
        if point.iteration_time_s <= deadline_s * (1 + ROUNDING)
    ]
    if fitting:
        return Choice(index=fitting[-1], deadline_s=deadline_s)
    fastest_s = frontier.points[0].iteration_time_s
    asked, needed = _apart(deadline_s, fastest_s)
    raise RequestError(
        f"no plan finishes an iteration in {asked} s: the fastest needs {needed} s; "
        f"{advice(fastest_s)}, or profile higher clocks"
    )


def _check_positive(value: float, flag: str, what: str) -> None:
    if math.isnan(value) or value <= 0:
        raise RequestError(f"{flag} needs {what} above 0, not {value:g}")


def _apart(asked: float, needed: float) -> tuple[str, str]:
    """Two different values, to six significant digits or as many more as tell them apart."""
    for digits in range(6, 17):
        texts = f"{asked:.{digits}g}", f"{needed:.{digits}g}"
        if texts[0] != texts[1]:
            return texts
    return repr(asked), repr(needed)


def _up(value: float) -> str:
    """A value rounded up to five digits, so that asking for what is printed succeeds."""
    digits = min(4 - math.floor(math.log10(value)), 300)  # 10.0**309 is beyond a float
    scale = 10.0**digits
    return f"{math.ceil(value * scale) / scale:.{max(digits, 0)}f}"


def _slower(frontier: Frontier, index: int, count: int) -> list[FrontierPoint]:
    """In training, an alternative is a change of clocks; parts and partitions stay as they are."""
    runs = _runs(frontier, frontier.points[index]) if count else []
    slower = [one for one in frontier.points[index + 1 :] if count and _runs(frontier, one) == runs]
    count = min(count, len(slower))
    return [slower[(number + 1) * len(slower) // count - 1] for number in range(count)]


def _runs(frontier: Frontier, point: FrontierPoint) -> list[object]:
    """How a point runs its operations, whatever the clocks."""
    ops = zip(frontier.schedule.ops, point.choices, strict=True)
    options = (frontier.options[op.key][choice] for op, choice in ops)
    return [(one.nanobatches, dict(one.partitions)) for one in options]


def _prediction(frontier: Frontier, point: FrontierPoint) -> Prediction:
    energy_j, bound_j = (
        _shortened(point.energy_j, ROUND_CEILING),
        _shortened(point.lower_bound_j, ROUND_FLOOR),
    )
    return Prediction(
        iteration_time_s=_shortened(point.iteration_time_s, ROUND_CEILING),
        energy_j=energy_j,
        lower_bound_j=bound_j,
        gap=_shortened(energy_j / bound_j - 1, ROUND_CEILING),
        stage_energy_j=tuple(_shortened(one, ROUND_CEILING) for one in _stage_energies(frontier, point)),
    )


def _stage_energies(frontier: Frontier, point: FrontierPoint) -> list[float]:
    """Of one GPU of each stage: its operations, and wait power for the rest of the iteration."""
    found = [frontier.wait_power_w * point.iteration_time_s] * frontier.pipeline.stages
    for op, choice in zip(frontier.schedule.ops, point.choices, strict=True):
        option = frontier.options[op.key][choice]
        found[op.stage] += option.energy_j - frontier.wait_power_w * option.time_s
    return found


def _baseline(one: Baseline | None) -> Baseline | None:
    if one is None:
        return None
    return replace(
        one,
        iteration_time_s=_shortened(one.iteration_time_s, ROUND_CEILING),
        energy_j=_shortened(one.energy_j, ROUND_CEILING),
    )


def _shortened(value: float, rounding: str) -> float:
    """A number with nine digits, so that the last bits of a sum do not show as differences between plan files."""
    exact = Decimal(value)
    if not exact:
        return 0.0
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - _DIGITS + 1), rounding))


def _stages(frontier: Frontier, point: FrontierPoint) -> Stages:
    choices = iter(point.choices)
    return tuple(
        tuple(_planned(op, frontier.options[op.key][next(choices)]) for op in order)
        for order in frontier.schedule.orders
    )


def _planned(op: Op, option: Option) -> PlannedOp:
    return PlannedOp(
        op=op.kind,
        chunk=op.chunk,
        microbatch=op.microbatch,
        sm_clock_mhz=option.sm_clock_mhz,
        backward_chunk=op.backward_chunk,
        backward_microbatch=op.backward_microbatch,
        nanobatches=option.nanobatches,
        partitions=option.partitions,
    )
