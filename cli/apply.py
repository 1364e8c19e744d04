"""`energyopt apply`: from a frontier to the plan file that runs in training."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from energyopt.cli import output
from energyopt.cli.targets import refuse_overwrite
from energyopt.schemas.errors import RequestError

if TYPE_CHECKING:
    from energyopt.planner.selection import Choice
    from energyopt.schemas.frontier import Frontier
    from energyopt.schemas.plan import Plan


class PlanFormat(StrEnum):
    """What the plan file is written for."""

    PLAN = "plan"
    ZEUS = "zeus"
    KAREUS = "kareus"


_Frontier = Annotated[Path, typer.Argument(metavar="FRONTIER", help="Frontier to choose from.")]
_Output = Annotated[
    Path,
    typer.Option("-o", "--output", help="Plan file to write; for Kareus a folder, or what two names share."),
]
_Slowdown = Annotated[
    float | None,
    typer.Option(
        help="Longest iteration, as a multiple of the max-clock baseline's; 1.0 if nothing is asked for."
    ),
]
_Deadline = Annotated[float | None, typer.Option("--deadline-s", help="Longest iteration, s.")]
_Budget = Annotated[
    float | None, typer.Option("--energy-budget-j", help="Most energy for an iteration, all GPUs, J.")
]
_Cap = Annotated[float | None, typer.Option("--power-cap-w", help="Highest average power, all GPUs, W.")]
_Point = Annotated[
    str | None, typer.Option(metavar="K", help="Number of a point, or a name such as best_edp.")
]
_Alternatives = Annotated[
    int, typer.Option(min=0, help="Slower points to add, for a shim that meets a straggler.")
]
_Format = Annotated[
    PlanFormat,
    typer.Option(
        "--format",
        help="plan.json, the list that Zeus' pipeline frequency server reads, or Kareus' pair of lists.",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print the prediction and the baselines as JSON.")]


def register(app: typer.Typer) -> None:
    """Add the command `apply`."""
    app.command("apply")(apply)


def apply(
    frontier: _Frontier,
    destination: _Output,
    *,
    max_slowdown: _Slowdown = None,
    deadline_s: _Deadline = None,
    energy_budget_j: _Budget = None,
    power_cap_w: _Cap = None,
    point: _Point = None,
    alternatives: _Alternatives = 0,
    format_name: _Format = PlanFormat.PLAN,
    as_json: _Json = False,
) -> int:
    """Choose a point of a frontier and write its plan file.

    At most one of --max-slowdown, --deadline-s, --energy-budget-j, --power-cap-w and --point; if none is given,
    the cheapest plan that is as fast as all operations at their highest clock.
    """
    from energyopt.planner import selection
    from energyopt.schemas.frontier import read_frontier

    found = read_frontier(frontier)
    requests = {
        "--max-slowdown": (max_slowdown, selection.by_slowdown),
        "--deadline-s": (deadline_s, selection.by_deadline),
        "--energy-budget-j": (energy_budget_j, selection.by_energy_budget),
        "--power-cap-w": (power_cap_w, selection.by_power_cap),
        "--point": (point, selection.by_name),
    }
    asked = {flag: one for flag, one in requests.items() if one[0] is not None}
    if len(asked) > 1:
        raise RequestError(f"{' and '.join(asked)} were given; one of them decides")
    value, choose = next(iter(asked.values()), (1.0, selection.by_slowdown))
    choice = choose(found, value)  # type: ignore[operator]
    targets = _targets(destination, format_name, choice.index)
    for target in targets:
        refuse_overwrite(target, frontier)
    plan = selection.to_plan(found, choice, alternatives)
    _write(plan, targets, format_name, alternatives)
    if alternatives and not plan.alternatives and format_name is PlanFormat.PLAN:
        output.warn("--alternatives adds none: they change clocks alone, and no slower point does only that")
    _print(found, choice, plan, as_json)
    output.say(f"wrote {' and '.join(map(str, targets))}")
    return 0


def _targets(destination: Path, format_name: PlanFormat, point: int) -> tuple[Path, ...]:
    from energyopt.applier.kareus.files import pair_at

    return pair_at(destination, point) if format_name is PlanFormat.KAREUS else (destination,)


def _write(plan: "Plan", targets: tuple[Path, ...], format_name: PlanFormat, alternatives: int) -> None:
    from energyopt.schemas.files import check_target, write_bytes

    if alternatives and format_name is not PlanFormat.PLAN:
        output.warn(f"--alternatives is ignored: a list for {format_name.title()} holds one plan")
    texts = _texts(plan, format_name)
    for target in targets:
        check_target(target)
    for target, text in zip(targets, texts, strict=True):
        write_bytes(target, text.encode())


def _texts(plan: "Plan", format_name: PlanFormat) -> tuple[str, ...]:
    if format_name is PlanFormat.ZEUS:
        from energyopt.applier.zeus import zeus_text

        return (zeus_text(plan),)
    if format_name is PlanFormat.KAREUS:
        from energyopt.applier.kareus.export import kareus_texts

        return kareus_texts(plan)
    from energyopt.schemas.plan import plan_text

    return (plan_text(plan),)


def _print(frontier: "Frontier", choice: "Choice", plan: "Plan", as_json: bool) -> None:
    from energyopt.planner.views.choice import choice_table, choice_to_json

    if as_json:
        from energyopt.schemas.files import canonical_json

        output.data(canonical_json(choice_to_json(frontier, choice, plan)))
        return
    table = choice_table(frontier, choice, plan)
    output.table(table.columns, table.rows, table.title)
