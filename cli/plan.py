"""`energyopt plan`: from a profile and a pipeline to the frontier."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from energyopt.cli import output
from energyopt.cli.targets import refuse_overwrite

if TYPE_CHECKING:
    from energyopt.planner.limits.rules import SwitchLimits
    from energyopt.planner.limits.tradeoff import Tradeoff
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


class OnlyName(StrEnum):
    """What plans may choose; the names of energyopt.planner.composition.restriction.Only."""

    CLOCKS = "clocks"
    OVERLAP = "overlap"


_Only = Annotated[
    OnlyName | None,
    typer.Option(
        "--only",
        help="Plan with clocks alone, or with overlap alone at the highest clock, to see what each is worth.",
    ),
]
_MostOptions = Annotated[
    int | None,
    typer.Option(
        "--most-options",
        min=0,
        metavar="N",
        help="Options that an operation made of partitions chooses from; 0 for all, 64 to 512 by job size "
        "if not given. Bounds are over all of them.",
    ),
]
_AllowMissing = Annotated[
    bool,
    typer.Option(
        "--allow-missing-clocks", help="Leave out clocks that a partition was not measured at, and warn."
    ),
]
_Points = Annotated[int, typer.Option(min=4, max=500, help="Points of the frontier.")]
_MaxSwitches = Annotated[
    int | None,
    typer.Option(
        "--max-switches",
        metavar="N",
        help="At most N clock changes an iteration, between operations of a stage, over all stages.",
    ),
]
_MinDwell = Annotated[
    float | None,
    typer.Option(
        "--min-dwell-s",
        metavar="S",
        help="Keep a clock for at least S seconds; the profile's clock switch latency if not given.",
    ),
]
_Tradeoff = Annotated[
    bool,
    typer.Option(
        "--switch-tradeoff", help="Show what fewer clock changes cost, at 1 to 1.1 times the max-clock time."
    ),
]
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
    max_switches: _MaxSwitches = None,
    min_dwell_s: _MinDwell = None,
    switch_tradeoff: _Tradeoff = False,
    only: _Only = None,
    most_options: _MostOptions = None,
    allow_missing_clocks: _AllowMissing = False,
    as_json: _Json = False,
) -> int:
    """Solve for the energy-time frontier of one training iteration.

    Every point carries a proven lower bound on the energy at its time, and is recomputed by a simulator that shares
    no code with the solver. No plan asks for a clock change that cannot land.
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
    wishes = _Wishes(
        points=points,
        effort=effort,
        max_switches=max_switches,
        min_dwell_s=min_dwell_s,
        tradeoff=switch_tradeoff,
        only=None if only is None else only.value,
        most_options=most_options,
        allow_missing=allow_missing_clocks,
    )
    frontier, tradeoff = _solve(profile, settings, wishes)
    from energyopt.schemas.frontier import write_frontier

    write_frontier(destination, frontier)
    _print(frontier, tradeoff, as_json)
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


class _Wishes(NamedTuple):
    """What is asked of the frontier's plans."""

    points: int
    effort: str
    max_switches: int | None
    min_dwell_s: float | None
    tradeoff: bool
    only: str | None
    most_options: int | None
    allow_missing: bool


def _solve(
    profile_file: Path, settings: dict[str, Any], wishes: _Wishes
) -> tuple["Frontier", "Tradeoff | None"]:
    from energyopt.cli.progress import reporting
    from energyopt.planner.composition.restriction import Only
    from energyopt.planner.composition.table import Composition
    from energyopt.planner.frontier import plan_and_weigh, plan_frontier
    from energyopt.planner.job import build_job, calibrated_otherwise, unused_kinds
    from energyopt.planner.solve import Effort
    from energyopt.schemas.profile import read_profile

    profile = read_profile(profile_file)
    limits = _limits(profile, wishes)
    job, schedule = build_job(settings, profile)
    for kind in unused_kinds(profile, schedule):
        output.warn(f"{profile_file}: rows of {kind} are not used, since {schedule.name} never runs one")
    if (difference := calibrated_otherwise(profile, job)) is not None:
        output.warn(f"{profile_file}: {difference}")
    _warn_of_wait_power(profile_file, profile)
    with reporting() as progress:
        planner = plan_and_weigh if wishes.tradeoff else plan_frontier
        found = planner(
            profile,
            job,
            schedule,
            points=wishes.points,
            effort=Effort(wishes.effort),
            limits=limits,
            composition=Composition(most=wishes.most_options, allow_missing=wishes.allow_missing),
            only=None if wishes.only is None else Only(wishes.only),
            warn=output.warn,
            progress=progress,
        )
    return found if isinstance(found, tuple) else (found, None)


def _limits(profile: "Profile", wishes: _Wishes) -> "SwitchLimits":
    """What the user asks for; how long a clock is kept at least comes from the profile otherwise, and is said."""
    from energyopt.planner.limits.rules import SwitchLimits

    latency_s = profile.metadata.clock_switch_latency_s
    dwell_s = wishes.min_dwell_s if wishes.min_dwell_s is not None else latency_s or 0.0
    limits = SwitchLimits(max_switches=wishes.max_switches, min_dwell_s=dwell_s)
    if wishes.min_dwell_s is not None:
        output.say(f"a clock is kept for at least {dwell_s:g} s, as asked for")
    elif latency_s is not None:
        output.say(f"a clock is kept for at least {dwell_s:g} s, the profile's clock switch latency")
    return limits


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


def _print(frontier: "Frontier", tradeoff: "Tradeoff | None", as_json: bool) -> None:
    from energyopt.planner.views.tradeoff import tradeoff_tables, tradeoff_to_json

    if as_json:
        from energyopt.planner.views.summary import frontier_to_json
        from energyopt.schemas.files import canonical_json

        beside = {} if tradeoff is None else {"switch_tradeoff": tradeoff_to_json(tradeoff)}
        output.data(canonical_json(frontier_to_json(frontier) | beside))
        return
    from energyopt.planner.views.frontier import job_title, points_table
    from energyopt.planner.views.savings import savings_table

    table, savings = points_table(frontier), savings_table(frontier)
    output.table(table.columns, table.rows, f"{job_title(frontier)}: points")
    beside = [] if savings is None else [savings]
    for one in [*beside, *(() if tradeoff is None else tradeoff_tables(tradeoff))]:
        output.data("")
        output.table(one.columns, one.rows, one.title)
