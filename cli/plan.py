"""`energyopt plan`: from a profile and a pipeline to the frontier."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from energyopt.cli import output
from energyopt.cli.targets import refuse_overwrite

if TYPE_CHECKING:
    from energyopt.schemas.frontier import Frontier
    from energyopt.schemas.profile import Profile

_Profile = Annotated[Path, typer.Argument(metavar="PROFILE", help="profile.parquet to plan from.")]
_Output = Annotated[Path, typer.Option("-o", "--output", help="Frontier file to write.")]
_PipelineFile = Annotated[
    Path | None, typer.Option("--pipeline", metavar="TOML", help="pipeline.toml; flags override it.")
]
_Stages = Annotated[int | None, typer.Option(min=1, help="Pipeline stages; the profile's if not given.")]
_Microbatches = Annotated[int | None, typer.Option(min=1, help="Microbatches of an iteration.")]
_Schedule = Annotated[
    str | None,
    typer.Option(help="gpipe, 1f1b (if not given), interleaved-1f1b, zb-h1, or a PyTorch schedule .csv."),
]
_Chunks = Annotated[
    int | None,
    typer.Option("--chunks", min=1, help="Model chunks on each stage; the profile's if not given."),
]
_Degree = Annotated[
    int | None, typer.Option(min=1, help="Degree of the job, for the plan; the profile's if not given.")
]
_Replicas = Annotated[int | None, typer.Option(min=1, help="Degree of the job, recorded in the plan.")]
_P2p = Annotated[float | None, typer.Option(help="Time of a transfer between two stages, s.")]
_Fixed = Annotated[
    float | None,
    typer.Option(
        help="Time of an iteration outside the pipeline (optimizer, gradient sync), s; counted at wait power."
    ),
]


class EffortName(StrEnum):
    """How long to search; the names of energyopt.planner.solve.Effort, which needs numpy."""

    QUICK = "quick"
    NORMAL = "normal"


_Effort = Annotated[
    EffortName,
    typer.Option("--effort", help="quick: the bound at once, plans a little further from it, in a second."),
]
_Points = Annotated[int, typer.Option(min=4, max=500, help="Points of the frontier.")]
_Json = Annotated[bool, typer.Option("--json", help="Print the points as JSON.")]


def register(app: typer.Typer) -> None:
    """Add the command `plan`."""
    app.command("plan")(plan)


def plan(
    profile: _Profile,
    destination: _Output,
    *,
    pipeline: _PipelineFile = None,
    stages: _Stages = None,
    microbatches: _Microbatches = None,
    schedule: _Schedule = None,
    chunks: _Chunks = None,
    tensor_parallel: _Degree = None,
    context_parallel: _Degree = None,
    data_parallel: _Replicas = None,
    p2p_time_s: _P2p = None,
    fixed_time_s: _Fixed = None,
    points: _Points = 20,
    effort: _Effort = EffortName.NORMAL,
    as_json: _Json = False,
) -> int:
    """Solve for the energy-time frontier of one training iteration.

    Every point carries a proven lower bound on the energy at its time, and is recomputed by a simulator that shares
    no code with the solver.
    """
    flags = {
        "stages": stages,
        "microbatches": microbatches,
        "schedule": schedule,
        "chunks_per_stage": chunks,
        "tensor_parallel": tensor_parallel,
        "context_parallel": context_parallel,
        "data_parallel": data_parallel,
        "p2p_time_s": p2p_time_s,
        "fixed_time_s": fixed_time_s,
    }
    from energyopt.planner.job import schedule_file

    settings = _settings(pipeline, flags)
    refuse_overwrite(destination, profile, pipeline, schedule_file(settings))
    frontier = _solve(profile, settings, points, effort)
    from energyopt.schemas.frontier import write_frontier

    write_frontier(destination, frontier)
    _print(frontier, as_json)
    output.say(f"wrote {destination}: {_counted(len(frontier.points), points)}")
    return 0


def _counted(found: int, asked: int) -> str:
    return (
        f"{found} points" if found >= asked else f"{found} points of {asked} asked for: no more plans differ"
    )


def _settings(pipeline_file: Path | None, flags: dict[str, Any]) -> dict[str, Any]:
    """The file's settings and the flags over them; a schedule's path in the file starts at the file's folder."""
    from energyopt.planner.job import merged_settings, schedule_file
    from energyopt.schemas.pipeline import read_pipeline_toml

    if pipeline_file is None:
        return merged_settings({}, flags)
    settings = read_pipeline_toml(pipeline_file)
    if (schedule := schedule_file(settings)) is not None:
        settings["schedule"] = str(pipeline_file.parent / schedule)
    return merged_settings(settings, flags)


def _solve(profile_file: Path, settings: dict[str, Any], points: int, effort: str) -> "Frontier":
    from energyopt.cli.progress import reporting
    from energyopt.planner.frontier import plan_frontier
    from energyopt.planner.job import build_job, unused_kinds
    from energyopt.planner.solve import Effort
    from energyopt.schemas.profile import read_profile

    profile = read_profile(profile_file)
    job, schedule = build_job(settings, profile)
    for kind in unused_kinds(profile, schedule):
        output.warn(f"{profile_file}: rows of {kind} are not used, since {schedule.name} never runs one")
    _warn_of_wait_power(profile_file, profile)
    with reporting() as progress:
        return plan_frontier(profile, job, schedule, points=points, effort=Effort(effort), progress=progress)


def _warn_of_wait_power(file: Path, profile: "Profile") -> None:
    from energyopt.planner.options import draws_less_than_waiting

    names = draws_less_than_waiting(profile)
    if not names:
        return
    who = f"{names[0]} draws" if len(names) == 1 else f"{names[0]} and {len(names) - 1} more draw"
    output.warn(
        f"{file}: {who} less than the wait power of {profile.metadata.wait_power_w:g} W; "
        "is that the wait power of this GPU?"
    )


def _print(frontier: "Frontier", as_json: bool) -> None:
    if as_json:
        from energyopt.planner.views.summary import frontier_to_json
        from energyopt.schemas.files import canonical_json

        output.data(canonical_json(frontier_to_json(frontier)))
        return
    from energyopt.planner.views.frontier import job_title, points_table

    table = points_table(frontier)
    output.table(table.columns, table.rows, f"{job_title(frontier)}: points")
