"""`energyopt diff`: whether a new plan or frontier is worse than an old one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from energyopt.cli import output
from energyopt.cli.targets import refuse_overwrite
from energyopt.planner.diff.comparable import Allowance
from energyopt.planner.diff.formats import RENDERERS, Format
from energyopt.planner.diff.interface import Report
from energyopt.planner.diff.thresholds import NO_INCREASE, Limit, Limits, judge, parse_limit
from energyopt.schemas.errors import NotComparableError, RequestError
from energyopt.schemas.files import reading_once

if TYPE_CHECKING:
    from energyopt.planner.diff.records import Comparison

HELP = """Compare two plans or two frontiers of one job; exit with 1 where NEW is worse.

A plan is worse where its predicted energy or time exceeds OLD's by more than its limit. A frontier is worse
where, for a named point of OLD, NEW holds no point within both limits, or none of that name. A limit that is
not given is 0: nothing may get worse (differences below 1e-9 of the value are noise). A decrease never fails.

Exit codes: 0 not worse, 1 worse, 2 the files cannot be compared.
"""

_Old = Annotated[Path, typer.Argument(metavar="OLD", help="Plan or frontier to compare with.")]
_New = Annotated[Path, typer.Argument(metavar="NEW", help="Plan or frontier to judge.")]
_Energy = Annotated[
    str | None,
    typer.Option(
        "--max-energy-increase", metavar="LIMIT", help="Such as 1%, 5J, 0.2kJ or 5 (J); 0 if not given."
    ),
]
_Time = Annotated[
    str | None,
    typer.Option(
        "--max-time-increase", metavar="LIMIT", help="Such as 0.5%, 2s, 20ms or 0.02 (s); 0 if not given."
    ),
]
_Format = Annotated[Format | None, typer.Option("--format", help="Output format; text if not given.")]
_Json = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
_Allow = Annotated[
    list[Allowance] | None,
    typer.Option("--allow", help="Compare jobs that differ in this; may be given several times."),
]
_Output = Annotated[Path | None, typer.Option("-o", "--output", help="File to write instead of printing.")]


def register(app: typer.Typer) -> None:
    """Add the command `diff`."""
    app.command("diff", help=HELP, short_help="Compare two plans or frontiers; exit 1 where NEW is worse.")(
        diff
    )


def diff(
    old: _Old,
    new: _New,
    *,
    max_energy_increase: _Energy = None,
    max_time_increase: _Time = None,
    format_name: _Format = None,
    as_json: _Json = False,
    allow: _Allow = None,
    destination: _Output = None,
) -> int:
    """Compare two files, print or write the report, and return 0, or 1 where NEW is worse."""
    chosen = _chosen_format(format_name, as_json)
    limits = Limits(
        energy=_limit(max_energy_increase, "J", "--max-energy-increase"),
        time=_limit(max_time_increase, "s", "--max-time-increase"),
        asked=max_energy_increase is not None or max_time_increase is not None,
    )
    with reading_once():
        comparison = _compare(old, new, frozenset(allow or ()))
    report = Report(
        old_file=str(old),
        new_file=str(new),
        comparison=comparison,
        limits=limits,
        failures=judge(comparison, limits),
    )
    _deliver(RENDERERS[chosen](report), report, destination, (old, new))
    return 1 if report.failures else 0


def _chosen_format(format_name: Format | None, as_json: bool) -> Format:
    if not as_json:
        return format_name or Format.TEXT
    if format_name not in (None, Format.JSON):
        raise RequestError(f"--json and --format {format_name} contradict each other; give one of them")
    return Format.JSON


def _limit(text: str | None, unit: str, flag: str) -> Limit:
    return NO_INCREASE if text is None else parse_limit(text, unit, flag)


def _compare(old: Path, new: Path, allow: frozenset[str]) -> "Comparison":
    from energyopt.planner.diff.compare import compare_frontiers, compare_plans
    from energyopt.schemas import detect

    formats = detect.detect_format(old), detect.detect_format(new)
    if formats == (detect.PLAN, detect.PLAN):
        from energyopt.schemas.plan import read_plan

        return compare_plans(read_plan(old), read_plan(new), allow=allow)
    if formats == (detect.FRONTIER, detect.FRONTIER):
        from energyopt.schemas.frontier import read_frontier

        return compare_frontiers(read_frontier(old), read_frontier(new), allow=allow)
    raise NotComparableError(
        f"cannot compare: {old} is of format {formats[0]} and {new} of {formats[1]}; "
        "give two plans or two frontiers"
    )


def _deliver(text: str, report: Report, destination: Path | None, inputs: tuple[Path, Path]) -> None:
    if destination is None:
        output.data(text)
        return
    from energyopt.schemas.files import write_bytes

    refuse_overwrite(destination, *inputs)
    write_bytes(destination, text.encode())
    output.say(f"wrote {destination}: {report.verdict()}")
