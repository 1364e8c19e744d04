"""`energyopt plan`: from a profile and a pipeline to the frontier."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from energyopt.cli import output
from energyopt.cli.plan_options import (
    AllowMissing,
    Chunks,
    Degree,
    Effort,
    EffortName,
    Fixed,
    Json,
    MaxSwitches,
    Microbatches,
    MinDwell,
    MixedClocks,
    MostOptions,
    Only,
    Output,
    P2p,
    PeakLasts,
    PeakPowerCap,
    PipelineFile,
    Points,
    ProfileFile,
    Replicas,
    Schedule,
    Stages,
    SwitchEnergy,
    SwitchTime,
    SwitchTradeoff,
)
from energyopt.cli.sweep import (
    KeepDir,
    MaxSlowdown,
    SweepFile,
    SweepFlags,
    Workers,
    plan_sweep,
    refuse_sweep_flags,
)
from energyopt.cli.targets import refuse_overwrite

if TYPE_CHECKING:
    from energyopt.planner.composition.switching import SwitchCost
    from energyopt.planner.limits.rules import SwitchLimits
    from energyopt.planner.limits.tradeoff import Tradeoff
    from energyopt.schemas.frontier import Frontier
    from energyopt.schemas.profile import Profile


def register(app: typer.Typer) -> None:
    """Add the command `plan`."""
    app.command("plan")(plan)


def plan(
    profile: ProfileFile = None,
    destination: Output = None,
    *,
    pipeline: PipelineFile = None,
    stages: Stages = None,
    microbatches: Microbatches = None,
    schedule: Schedule = None,
    chunks: Chunks = None,
    tensor_parallel: Degree = None,
    context_parallel: Degree = None,
    data_parallel: Replicas = None,
    p2p_time_s: P2p = None,
    fixed_time_s: Fixed = None,
    points: Points = 20,
    effort: Effort = EffortName.NORMAL,
    max_switches: MaxSwitches = None,
    min_dwell_s: MinDwell = None,
    switch_tradeoff: SwitchTradeoff = False,
    only: Only = None,
    most_options: MostOptions = None,
    allow_missing_clocks: AllowMissing = False,
    mixed_clocks: MixedClocks = False,
    switch_time_s: SwitchTime = None,
    switch_energy_j: SwitchEnergy = None,
    peak_power_cap_w: PeakPowerCap = None,
    peak_lasts_s: PeakLasts = None,
    sweep: SweepFile = None,
    max_slowdown: MaxSlowdown = None,
    workers: Workers = None,
    keep_dir: KeepDir = None,
    as_json: Json = False,
) -> int:
    """Solve for the energy-time frontier of one training iteration, or of many layouts of a job (--sweep).

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
    if sweep is not None:
        beside = {f"--{_flag(name)}": value is not None for name, value in flags.items()} | {
            "PROFILE": profile is not None,
            "--pipeline": pipeline is not None,
            "--switch-tradeoff": switch_tradeoff,
            "--peak-power-cap-w": peak_power_cap_w is not None,
            "--peak-lasts-s": peak_lasts_s is not None,
            "--mixed-clocks": mixed_clocks or (switch_time_s, switch_energy_j) != (None, None),
        }
        wanted = SweepFlags(
            points=points,
            effort=effort,
            max_switches=max_switches,
            min_dwell_s=min_dwell_s,
            only=None if only is None else only.value,
            most_options=most_options,
            allow_missing=allow_missing_clocks,
            max_slowdown=max_slowdown,
            workers=workers,
            keep_dir=keep_dir,
            as_json=as_json,
        )
        return plan_sweep(sweep, destination, wanted, beside)
    if profile is None or destination is None:
        hint = "PROFILE" if profile is None else "-o"
        raise typer.BadParameter("missing; or plan many layouts with --sweep", param_hint=hint)
    refuse_sweep_flags(max_slowdown=max_slowdown, workers=workers, keep_dir=keep_dir)
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
        mixed_clocks=mixed_clocks,
        switch_time_s=switch_time_s,
        switch_energy_j=switch_energy_j,
        peak_power_cap_w=peak_power_cap_w,
        peak_lasts_s=peak_lasts_s,
    )
    frontier, tradeoff = _solve(profile, settings, wishes)
    from energyopt.schemas.frontier import write_frontier

    write_frontier(destination, frontier)
    _print(frontier, tradeoff, as_json)
    _say_what_cap_covers(frontier)
    output.say(f"wrote {destination}: {_counted(frontier, points)}")
    return 0


def _flag(setting: str) -> str:
    return setting.removesuffix("_per_stage").replace("_", "-")


def _counted(frontier: "Frontier", asked: int) -> str:
    found = len(frontier.points)
    reason = "no more plans differ" if frontier.peak_power_cap_w is None else "no more plans keep to the cap"
    return f"{found} points" if found >= asked else f"{found} points of {asked} asked for: {reason}"


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
    mixed_clocks: bool
    switch_time_s: float | None
    switch_energy_j: float | None
    peak_power_cap_w: float | None
    peak_lasts_s: float | None


def _solve(
    profile_file: Path, settings: dict[str, Any], wishes: _Wishes
) -> tuple["Frontier", "Tradeoff | None"]:
    from energyopt.cli.progress import reporting
    from energyopt.planner.composition.restriction import Only
    from energyopt.planner.composition.table import Composition
    from energyopt.planner.frontier import plan_and_weigh, plan_frontier
    from energyopt.planner.job import build_job, calibrated_otherwise, unused_kinds
    from energyopt.planner.power.rule import PeakRule
    from energyopt.planner.solve import Effort
    from energyopt.schemas.profile import read_profile

    profile = read_profile(profile_file)
    limits = _limits(profile, wishes)
    peak = PeakRule(cap_w=wishes.peak_power_cap_w, lasts_s=wishes.peak_lasts_s or 0.0)
    composition = Composition(
        most=wishes.most_options, allow_missing=wishes.allow_missing, switch=_switch(profile, wishes)
    )
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
            composition=composition,
            only=None if wishes.only is None else Only(wishes.only),
            peak=peak,
            warn=output.warn,
            progress=progress,
        )
    return found if isinstance(found, tuple) else (found, None)


def _switch(profile: "Profile", wishes: _Wishes) -> "SwitchCost | None":
    """What a change of the clock between partitions costs; None where none may be."""
    from energyopt.planner.composition.switching import switch_cost
    from energyopt.schemas.errors import RequestError

    if wishes.mixed_clocks:
        return switch_cost(profile.metadata, wishes.switch_time_s, wishes.switch_energy_j)
    if (wishes.switch_time_s, wishes.switch_energy_j) != (None, None):
        raise RequestError(
            "--switch-time-s and --switch-energy-j say something with --mixed-clocks alone; add it"
        )
    return None


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


def _say_what_cap_covers(frontier: "Frontier") -> None:
    from energyopt.planner.power.floor import least_time_s

    if frontier.peak_power_cap_w is None:
        return
    replicas = frontier.pipeline.data_parallel
    more = f"; {replicas} replicas in step draw up to {replicas} times as much" if replicas > 1 else ""
    output.say(f"peak power is at most {frontier.peak_power_cap_w:g} W on {frontier.gpus} GPU(s){more}")
    if (least_s := least_time_s(frontier)) is not None:
        output.say(f"no plan that keeps to that takes less than {least_s:.4f} s")


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
    others = [] if savings is None else [savings]
    for one in [*others, *(() if tradeoff is None else tradeoff_tables(tradeoff))]:
        output.data("")
        output.table(one.columns, one.rows, one.title)
