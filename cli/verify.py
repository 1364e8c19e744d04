"""`energyopt verify`: whether a run kept what its plan promised, and what it really saved."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from energyopt.cli import output
from energyopt.schemas.files import reading_once

if TYPE_CHECKING:
    from energyopt.planner.verification.records import Verification
    from energyopt.planner.verification.runs import Recorded
    from energyopt.schemas.ops import Schedule
    from energyopt.schemas.plan import Plan
    from energyopt.schemas.profile import Profile

HELP = """Compare what a plan promised with what a run of it measured; exit with 1 where they differ.

Iteration time and energy are judged by the whole 95 % interval of the measured mean, in either direction:
within the tolerance, beyond it, or cannot tell, where the interval reaches across the limit, there is none, or a
stage's energy was not read (--time-only leaves the energy out). Iterations are correlated; the interval takes their
lag-1 autocorrelation into account. Iterations longer than 1.05 times the median are stalls, which no plan predicts:
they are named and kept out of that comparison, and count in the saving; where more than 10 % stall, nothing can be
told. Alternatives of the plan are judged from 8 iterations on. The first recorded iteration of every run is left
out (--skip). The saving is measured only against --baseline runs; with two or more its interval holds what runs of
one job differ by.

Exit codes: 0 within, 1 beyond or cannot tell, 2 the files cannot be compared.
"""

_Plan = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file that ran.")]
_Telemetry = Annotated[Path, typer.Argument(metavar="TELEMETRY", help="telemetry.parquet of the run.")]
_Baseline = Annotated[
    list[Path] | None,
    typer.Option(
        "--baseline",
        metavar="TELEMETRY",
        help="A run of the same job without the plan, for the saving; give several if you can.",
    ),
]
_Profile = Annotated[
    Path | None,
    typer.Option(
        "--profile", help="Recompute the prediction from this profile, and compare each operation with it."
    ),
]
_Schedule = Annotated[
    Path | None,
    typer.Option("--schedule", metavar="CSV", help="The schedule's file, where --profile needs it."),
]
_Tolerance = Annotated[str, typer.Option("--tolerance", metavar="SHARE", help="Such as 2% or 0.5%.")]
_Skip = Annotated[
    int, typer.Option("--skip", min=0, help="First recorded iterations of each run to leave out: warm-up.")
]
_TimeOnly = Annotated[bool, typer.Option("--time-only", help="Judge the time alone, not the energy.")]
_Json = Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the command `verify`."""
    app.command("verify", help=HELP, short_help="Compare a plan's promise with a run of it.")(verify)


def verify(
    plan: _Plan,
    telemetry: _Telemetry,
    *,
    baseline: _Baseline = None,
    profile: _Profile = None,
    schedule: _Schedule = None,
    tolerance: _Tolerance = "2%",
    skip: _Skip = 1,
    time_only: _TimeOnly = False,
    as_json: _Json = False,
) -> int:
    """Verify a plan, print what was found, and return 0, or 1 where it is not verified."""
    from energyopt.planner.verification.judging import parse_tolerance
    from energyopt.planner.verification.verify import verify as compare
    from energyopt.schemas.plan import read_plan

    limit = parse_tolerance(tolerance)
    if schedule is not None and profile is None:
        output.say(f"note: --schedule {schedule} is not used without --profile")
    with reading_once():  # the plan may come through a pipe, and its bytes are needed besides its content
        read = read_plan(plan)
        priced = None if profile is None else _profile(profile)
        found = compare(
            read,
            plan,
            _recorded(telemetry),
            baselines=[_recorded(one) for one in baseline or ()],
            profile=priced,
            schedule=None if priced is None else _schedule(read, schedule),
            tolerance=limit,
            skip=skip,
            time_only=time_only,
        )
    _print(found, as_json)
    return 1 if found.failed else 0


def _profile(file: Path) -> "Profile":
    from energyopt.schemas.profile import read_profile

    return read_profile(file)


def _schedule(plan: "Plan", file: Path | None) -> "Schedule":
    from energyopt.planner.job import schedule_of

    return schedule_of(plan.pipeline, file)


def _recorded(file: Path) -> "Recorded":
    from energyopt.planner.verification.runs import Recorded
    from energyopt.schemas.telemetry import read_telemetry

    return Recorded(file=str(file), telemetry=read_telemetry(file))


def _print(found: "Verification", as_json: bool) -> None:
    from energyopt.planner.verification.tables import verification_tables, words

    if as_json:
        from dataclasses import asdict

        from energyopt.schemas.files import canonical_json

        output.data(canonical_json(asdict(found) | {"failed": found.failed}))
        return
    lines = [*found.scope, *(f"note: {note}" for note in found.notes)]
    output.data("\n".join(lines))
    for table in verification_tables(found):
        output.data("")
        output.table(table.columns, table.rows, table.title)
    output.data("")
    worst = "--profile shows at which stage" if found.worst is None else f"at {found.worst}"
    output.data(f"where the model is off most: {worst}")
    output.data(words(found))
