"""Putting a job together from its settings, its schedule and the profile it is planned from."""

from pathlib import Path
from typing import Any

from energyopt.planner.schedules.registry import SCHEDULES, build_schedule
from energyopt.planner.schedules.torch_csv import read_torch_csv
from energyopt.schemas.errors import ProfileError, RequestError, ScheduleError
from energyopt.schemas.ops import OpKind, Schedule
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.profile import Level, Profile

_DEGREES_OF_WORKLOADS = {"tp": "tensor_parallel", "cp": "context_parallel"}


def build_job(settings: dict[str, Any], profile: Profile) -> tuple[Pipeline, Schedule]:
    """The pipeline and its schedule, checked against each other and against the profile.

    settings: fields of Pipeline; `schedule` is a name or the path of a PyTorch schedule CSV. Stages, chunks,
        degrees, P2P time and fixed time that are not given are the profile's.

    Raises:
        RequestError: a setting is missing, or contradicts the schedule's file.
        ProfileError: the profile is of another job.
    """
    settings = _measured_degrees(profile) | _fitted_times(profile) | settings
    if (file := schedule_file(settings)) is not None:
        pipeline, schedule = _from_csv(settings, file)
    else:
        pipeline = _from_settings(settings, profile)
        schedule = build_schedule(pipeline)
    _check_profile(profile, pipeline)
    return pipeline, schedule


def schedule_file(settings: dict[str, Any]) -> Path | None:
    """The file that holds the schedule; None where it is one of those known by name."""
    schedule = str(settings.get("schedule", ""))
    return Path(schedule) if schedule.lower().endswith(".csv") else None


def schedule_of(pipeline: Pipeline, file: Path | None = None) -> Schedule:
    """The schedule that a plan or a run names; one that came from a CSV is read from that `file`.

    Raises:
        RequestError: the schedule came from a file and none is given, or the file is of another schedule.
    """
    if file is None:
        if pipeline.schedule not in SCHEDULES:
            raise RequestError(f"the schedule is {pipeline.schedule}; give its file with --schedule")
        return build_schedule(pipeline)
    found = read_torch_csv(file)
    sizes = (found.stages, found.microbatches, found.chunks_per_stage)
    wanted = (pipeline.stages, pipeline.microbatches, pipeline.chunks_per_stage)
    if sizes != wanted or found.name != pipeline.schedule:
        raise RequestError(
            f"{file} holds {found.name} of {sizes} (stages, microbatches, chunks), "
            f"not {pipeline.schedule} of {wanted}"
        )
    return found


def unused_kinds(profile: Profile, schedule: Schedule) -> list[OpKind]:
    """The kinds that the profile measured and the schedule never runs."""
    measured = {row.op for row in profile.rows if row.level is not Level.KERNEL}
    return sorted(measured - {op.kind for op in schedule.ops})


def _from_csv(settings: dict[str, Any], path: Path) -> tuple[Pipeline, Schedule]:
    schedule = read_torch_csv(path)
    found = {
        "stages": schedule.stages,
        "microbatches": schedule.microbatches,
        "chunks_per_stage": schedule.chunks_per_stage,
    }
    for name, value in found.items():
        if settings.get(name, value) != value:
            raise RequestError(f"{path} has {name} = {value}, but {settings[name]} was asked for")
    pipeline = Pipeline(**{**settings, **found, "schedule": schedule.name})
    return pipeline, schedule


def _measured_degrees(profile: Profile) -> dict[str, int]:
    """The tensor and context degree that the profile says it was measured with, under the pipeline's names."""
    found = {name: profile.metadata.workload.get(short) for short, name in _DEGREES_OF_WORKLOADS.items()}
    return {name: value for name, value in found.items() if isinstance(value, int)}


def _fitted_times(profile: Profile) -> dict[str, float]:
    """The times outside operations that `calibrate` has fitted to training runs."""
    found = {name: getattr(profile.metadata, name) for name in ("p2p_time_s", "fixed_time_s")}
    return {name: value for name, value in found.items() if value is not None}


def calibrated_otherwise(profile: Profile, pipeline: Pipeline) -> str | None:
    """In what the runs that a profile was calibrated with differ from a job, or None: its fixed time is theirs."""
    for name in ("stages", "microbatches", "schedule"):
        found, wanted = profile.metadata.measurement.get(f"calibrated_{name}"), getattr(pipeline, name)
        if found is not None and found != wanted:
            return (
                f"calibrated with runs of {name} {found}, planned for {wanted}: its fixed time may be another"
            )
    return None


def _from_settings(settings: dict[str, Any], profile: Profile) -> Pipeline:
    stages = settings.get("stages") or _stages_of(profile)
    if stages is None:
        raise RequestError("how many pipeline stages? give --stages, or `stages` in the pipeline file")
    if "microbatches" not in settings:
        raise RequestError(
            "how many microbatches? give --microbatches, or `microbatches` in the pipeline file"
        )
    if settings.get("schedule", "1f1b") not in SCHEDULES:
        raise ScheduleError(
            f"unknown schedule {settings['schedule']!r}: known are {', '.join(SCHEDULES)}, "
            "or the path of a PyTorch schedule file that ends in .csv"
        )
    chunks = settings.get("chunks_per_stage") or _chunks_of(profile)
    return Pipeline(**{**settings, "stages": stages, "chunks_per_stage": chunks})


def _check_profile(profile: Profile, pipeline: Pipeline) -> None:
    stages = _stages_of(profile)
    if stages is not None and stages > pipeline.stages:
        raise ProfileError(
            f"the profile has {stages} stages and the job {pipeline.stages}: it is the profile of another job"
        )
    chunks = _chunks_of(profile)
    if chunks > pipeline.chunks_per_stage:
        raise ProfileError(
            f"the profile has {chunks} chunks per stage and the job {pipeline.chunks_per_stage}: "
            f"give --chunks {chunks} and a schedule that has chunks, or profile again"
        )
    for short, name in _DEGREES_OF_WORKLOADS.items():
        measured, planned = profile.metadata.workload.get(short), getattr(pipeline, name)
        if measured is not None and measured != planned:
            flag = "--" + name.replace("_", "-")
            raise ProfileError(
                f"the profile was measured with {name} {measured} and the job has {planned}: "
                f"give {flag} {measured} if that is what runs, or profile again"
            )


def _stages_of(profile: Profile) -> int | None:
    """The number of stages that the profile tells apart, or None where its rows serve every stage."""
    stages = {row.stage for row in profile.rows if row.level is not Level.KERNEL and row.stage is not None}
    return max(stages) + 1 if stages else None


def _chunks_of(profile: Profile) -> int:
    """The number of chunks per stage that the profile tells apart."""
    return 1 + max((row.chunk or 0 for row in profile.rows if row.level is not Level.KERNEL), default=0)


def merged_settings(file: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """The settings of a file, overridden by the flags that were given."""
    return file | {name: value for name, value in flags.items() if value is not None}
