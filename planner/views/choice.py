"""A chosen point beside what runs without it."""

from typing import TYPE_CHECKING, Any

from energyopt.planner.executions import executions
from energyopt.planner.tables import Table
from energyopt.planner.views.frontier import job_title
from energyopt.planner.wording import MISSING, number, percent, percent_change, relative
from energyopt.schemas.plan import plan_to_json

if TYPE_CHECKING:
    from energyopt.planner.executions import Executions
    from energyopt.planner.selection import Choice
    from energyopt.schemas.frontier import Frontier
    from energyopt.schemas.plan import Baseline, Plan


def choice_table(frontier: "Frontier", choice: "Choice", plan: "Plan") -> Table:
    """The plan, its bound and both baselines, with what the plan changes against each."""
    point = frontier.points[choice.index]
    names = f" ({', '.join(point.names)})" if point.names else ""
    own_s, own_j = point.iteration_time_s, point.energy_j
    rows = [
        (f"this plan, point {choice.index}{names}", number(own_s, "s"), number(own_j, "J"), MISSING, MISSING),
        (
            "lower bound at its time",
            number(own_s, "s"),
            number(point.lower_bound_j, "J"),
            MISSING,
            _gap(point.gap),
        ),
        _baseline_row("every op at its highest clock", plan.max_clock, own_s, own_j),
        _baseline_row(_single_clock(frontier, plan), plan.best_single_clock, own_s, own_j),
    ]
    if choice.index + 1 < len(frontier.points):
        slower = frontier.points[choice.index + 1]
        time_s, energy_j = slower.iteration_time_s, slower.energy_j
        against = (percent_change(relative(own_s, time_s)), percent_change(relative(own_j, energy_j)))
        name = f"next slower plan, point {choice.index + 1}"
        rows.append((name, number(time_s, "s"), number(energy_j, "J"), *against))
    columns = ("per iteration", "time_s", "energy_j", "plan's time against it", "plan's energy against it")
    return Table(title=f"{job_title(frontier)}{_carried_out(plan)}", columns=columns, rows=tuple(rows))


def choice_to_json(frontier: "Frontier", choice: "Choice", plan: "Plan") -> dict[str, Any]:
    """The chosen point's number and names, with the plan's prediction and baselines."""
    everything, found = plan_to_json(plan), _executions(plan)
    return {
        "point": choice.index,
        "names": list(frontier.points[choice.index].names),
        "gpus": plan.gpus,
        "ops": found.ops,
        "ops_in_nanobatches": found.in_nanobatches,
        "partitions": list(found.partitions),
        "predicted": everything["predicted"],
        "baselines": everything["baselines"],
        "alternatives": [other["predicted"] for other in everything["alternatives"]],
    }


def _executions(plan: "Plan") -> "Executions":
    return executions([op for ops in plan.stages for op in ops])


def _carried_out(plan: "Plan") -> str:
    """What a training loop must do besides clocks, for the title; nothing where it need not do anything."""
    found = _executions(plan)
    if found.is_plain:
        return ""
    names = f"; planned partitions: {len(found.partitions)}" if found.partitions else ""
    return f"; operations in nanobatches: {found.in_nanobatches} of {found.ops}{names}"


def _gap(gap: float) -> str:
    return f"+{percent(gap)}"


def _single_clock(frontier: "Frontier", plan: "Plan") -> str:
    """The name of the row, with the reason where there is no such clock."""
    if plan.best_single_clock is not None:
        return "best single clock in time"
    if not frontier.single_clocks:
        return "best single clock in time: no clock is common to all operations"
    return "best single clock in time: no clock is fast enough"


def _baseline_row(name: str, one: "Baseline | None", time_s: float, energy_j: float) -> tuple[str, ...]:
    if one is None:
        return (name, MISSING, MISSING, MISSING, MISSING)
    clock = "" if one.sm_clock_mhz is None else f", {one.sm_clock_mhz} MHz"
    return (
        f"{name}{clock}",
        number(one.iteration_time_s, "s"),
        number(one.energy_j, "J"),
        percent_change(relative(time_s, one.iteration_time_s)),
        percent_change(relative(energy_j, one.energy_j)),
    )
