"""Running a sweep through joblib, on this machine's cores or wherever joblib's configured back end takes it."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

from joblib import Parallel, delayed

from energyopt.planner.job import calibrated_otherwise
from energyopt.planner.progress import Progress, Warn, ignore, silent
from energyopt.planner.sweep.keeping import Keeper, frontier_name
from energyopt.planner.sweep.layouts import expand, names_of, setting
from energyopt.planner.sweep.task import Outcome, Task, pipeline_of, plan_layout, profile_of, summary
from energyopt.planner.sweep.wishes import Wishes
from energyopt.schemas.errors import EnergyoptError, SolverError
from energyopt.schemas.profile import Profile
from energyopt.schemas.sweep import FailedLayout, Layout, PlannedLayout, Sweep
from energyopt.schemas.sweep_request import SweepRequest


def run_sweep(
    request: SweepRequest,
    profiles: Mapping[str, Profile],
    wishes: Wishes | None = None,
    *,
    max_slowdown: float = 1.0,
    workers: int | None = None,
    keeper: Keeper | None = None,
    warn: Warn = ignore,
    progress: Progress = silent,
) -> Sweep:
    """Plan every layout of a sweep; one that fails is listed as such and takes none of the others down.

    profiles: by the names that the request has for them.
    workers: processes, or what joblib's back end counts; None for what `joblib.parallel_config` says, which by
        itself is one. -1 is all there are. Results do not depend on it.
    keeper: keeps each layout's frontier, and has those that an earlier run has kept.

    Raises:
        RequestError, ProfileError: as `expand`.
        EnergyoptError: no layout could be planned, or a worker process was killed.
        SolverError: a layout met a defect of energyopt, after all others were planned.
    """
    layouts, left_out = expand(request, profiles)
    tasks = _tasks(request, profiles, layouts, wishes or Wishes(), keep=keeper is not None)
    _warn_of_fixed_times(tasks, profiles, warn)
    outcomes = _outcomes(tasks, names_of(layouts), workers, keeper, progress)
    _tell(outcomes, names_of(layouts), warn)
    found = [outcome.found for outcome in outcomes]
    planned = tuple(one for one in found if isinstance(one, PlannedLayout))
    failed = tuple(one for one in found if isinstance(one, FailedLayout))
    if not planned:
        raise (SolverError if outcomes[0].defect else EnergyoptError)(
            f"no layout could be planned: {names_of(layouts)[0]}: {failed[0].error}"
        )
    metadata = profiles[request.profiles[0]].metadata
    return Sweep(
        model=str(metadata.workload.get("model", "unnamed model")),
        device_name=metadata.device_name,
        device_kind=metadata.device_kind,
        scope=metadata.scope,
        global_batch=request.global_batch,
        sequence_length=setting(metadata, "sequence_length"),
        max_slowdown=max_slowdown,
        layouts=planned,
        failed=failed,
        left_out=left_out,
    )


def _tasks(
    request: SweepRequest,
    profiles: Mapping[str, Profile],
    layouts: Sequence[Layout],
    wishes: Wishes,
    *,
    keep: bool,
) -> list[Task]:
    digests = {name: profile.sha256() for name, profile in profiles.items()}
    return [
        Task(
            number=number,
            layout=layout,
            pipeline=pipeline_of(layout, request, profiles[layout.profile].metadata),
            profile=profiles[layout.profile],
            profile_sha256=digests[layout.profile],
            wishes=wishes,
            keep=keep,
        )
        for number, layout in enumerate(layouts)
    ]


def _outcomes(
    tasks: Sequence[Task],
    names: Sequence[str],
    workers: int | None,
    keeper: Keeper | None,
    progress: Progress,
) -> list[Outcome]:
    """The outcomes in the order of the tasks; the largest layouts are planned first, so that none is left alone."""
    progress("planning layouts", 0.0)
    found = {} if keeper is None else _kept(tasks, keeper)
    open_tasks = [task for task in tasks if task.number not in found]
    for outcome in _planned(sorted(open_tasks, key=_size, reverse=True), workers):
        task = tasks[outcome.number]
        found[outcome.number] = outcome if keeper is None else _keep(outcome, task, keeper)
        progress(f"planned {names[outcome.number]}", len(found) / len(tasks))
    return [found[task.number] for task in tasks]


def _planned(tasks: Sequence[Task], workers: int | None) -> Iterator[Outcome]:
    """Outcomes as they come; all at the end where a back end cannot hand them over one by one."""
    try:
        parallel = Parallel(n_jobs=workers, batch_size=1, return_as="generator_unordered")
    except ValueError:
        parallel = Parallel(n_jobs=workers, batch_size=1)
    try:
        yield from parallel(delayed(plan_layout)(task) for task in tasks)
    except BrokenProcessPool as error:
        raise EnergyoptError(
            "a worker process was killed, by lack of memory most likely: run again with fewer --workers; "
            "--keep-dir keeps what is planned until then"
        ) from error


def _kept(tasks: Sequence[Task], keeper: Keeper) -> dict[int, Outcome]:
    found = {}
    for task in tasks:
        name = _file(task)
        if (frontier := keeper.kept(name)) is not None:
            found[task.number] = Outcome(number=task.number, found=summary(task.layout, frontier, name))
    return found


def _keep(outcome: Outcome, task: Task, keeper: Keeper) -> Outcome:
    if outcome.frontier is None or not isinstance(outcome.found, PlannedLayout):
        return outcome
    keeper.keep_profile(task.layout, outcome.frontier.profile_sha256, lambda: profile_of(task))
    keeper.keep(_file(task), outcome.frontier)
    return replace(outcome, found=replace(outcome.found, frontier=_file(task)), frontier=None)


def _file(task: Task) -> str:
    return frontier_name(task.layout, task.pipeline, task.profile_sha256, task.wishes)


def _size(task: Task) -> int:
    """About how many operations there are."""
    return task.layout.stages * task.layout.chunks_per_stage * task.layout.microbatches


def _warn_of_fixed_times(tasks: Sequence[Task], profiles: Mapping[str, Profile], warn: Warn) -> None:
    """Once for each profile whose fixed time was fitted to runs of one layout and is taken for all."""
    told = set()
    for task in tasks:
        profile, name = profiles[task.layout.profile], task.layout.profile
        taken = task.pipeline.fixed_time_s == profile.metadata.fixed_time_s
        difference = calibrated_otherwise(profile, task.pipeline) if taken else None
        if difference is not None and name not in told:
            told.add(name)
            warn(f"{name}: {difference}; give fixed_time_s, or a profile of its own for each layout")


def _tell(outcomes: Sequence[Outcome], names: Sequence[str], warn: Warn) -> None:
    """Warnings and failures, in the order of the layouts."""
    for outcome, name in zip(outcomes, names, strict=True):
        for text in outcome.warnings:
            warn(f"{name}: {text}")
        if isinstance(outcome.found, FailedLayout):
            warn(f"{name} is not planned: {outcome.found.error}")
