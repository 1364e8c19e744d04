"""`energyopt calibrate`: a profile that predicts the runs that were measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from energyopt.cli import output
from energyopt.cli.targets import refuse_overwrite

if TYPE_CHECKING:
    from energyopt.planner.calibration.records import Calibration

HELP = """Fit a profile to training runs: what they took and drew, predicted from their clocks.

Fitted are the fixed time of an iteration, the time of a transfer between two stages, the time and the energy of
each operation over clocks, and the wait power. With --profile its rows are corrected; without, rows are made from
the runs alone, at the clocks that they ran at. Several runs of different plans tell more than one; what they cannot
tell is kept as it was, and said; the interval of the fixed time then holds what the P2P time may hide in it. Runs
count by their iterations, of which the first recorded one is left out (--skip). `plan` takes the fitted times
unless its flags say otherwise.
"""

_Telemetry = Annotated[
    list[Path], typer.Argument(metavar="TELEMETRY", help="telemetry.parquet of runs of one job.")
]
_Output = Annotated[Path, typer.Option("-o", "--output", help="Profile to write.")]
_Profile = Annotated[Path | None, typer.Option("--profile", help="Profile to correct.")]
_WaitPower = Annotated[
    float | None,
    typer.Option(help="Power of a GPU that waits for others, W, where the runs alone cannot tell it."),
]
_Schedule = Annotated[
    Path | None,
    typer.Option("--schedule", metavar="CSV", help="The schedule's file, where it came from one."),
]
_Skip = Annotated[
    int, typer.Option("--skip", min=0, help="First recorded iterations of each run to leave out: warm-up.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print what was fitted as JSON.")]


def register(app: typer.Typer) -> None:
    """Add the command `calibrate`."""
    app.command("calibrate", help=HELP, short_help="Fit a profile to what training runs measured.")(calibrate)


def calibrate(
    telemetry: _Telemetry,
    destination: _Output,
    *,
    profile: _Profile = None,
    wait_power_w: _WaitPower = None,
    schedule: _Schedule = None,
    skip: _Skip = 1,
    as_json: _Json = False,
) -> int:
    """Fit a profile to runs, write it, and print what was fitted with its intervals and residuals."""
    from energyopt.planner.calibration.calibrate import calibrate as fit
    from energyopt.planner.job import schedule_of
    from energyopt.planner.verification.runs import Recorded
    from energyopt.schemas.profile import read_profile, write_profile
    from energyopt.schemas.telemetry import read_telemetry

    refuse_overwrite(destination, *telemetry, profile, schedule)
    runs = [Recorded(file=str(file), telemetry=read_telemetry(file)) for file in telemetry]
    found = fit(
        runs,
        schedule_of(runs[0].telemetry.metadata.pipeline, schedule),
        profile=None if profile is None else read_profile(profile),
        wait_power_w=wait_power_w,
        skip=skip,
    )
    write_profile(destination, found.profile)
    _print(found, as_json)
    output.say(f"wrote {destination}: {len(found.profile.rows)} rows, fitted to {len(found.runs)} runs")
    return 0


def _print(found: "Calibration", as_json: bool) -> None:
    if as_json:
        from energyopt.planner.calibration.tables import calibration_to_json
        from energyopt.schemas.files import canonical_json

        output.data(canonical_json(calibration_to_json(found)))
        return
    from energyopt.planner.calibration.tables import calibration_tables

    for note in found.notes:
        output.say(f"note: {note}")
    output.data("\n".join(found.scope))
    for table in calibration_tables(found):
        output.data("")
        output.table(table.columns, table.rows, table.title)
