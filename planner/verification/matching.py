"""Whether a run is a run of this plan, and whether a baseline may be compared with it."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from energyopt.planner.verification.runs import Run
from energyopt.schemas.errors import NotComparableError
from energyopt.schemas.files import read_bytes
from energyopt.schemas.pipeline import Pipeline, same_job
from energyopt.schemas.plan import Plan
from energyopt.schemas.profile import Profile
from energyopt.schemas.telemetry import Telemetry, TelemetryMetadata

_DEGREES = {"tp": "tensor_parallel", "cp": "context_parallel"}
_NAMES = ("stage", "op", "chunk", "microbatch")


def check_plan(plan: Plan, plan_file: Path, telemetry: Telemetry, file: str) -> tuple[str, ...]:
    """Refuse a run of another plan; return what the reader should know.

    A run names its plan by the digest of the file's bytes. Another digest is accepted where every operation that
    was recorded asked for the clock that this plan gives it, and the plan has nothing but clocks: then only the
    file's bytes differ. How partitions ran is not recorded.

    Raises:
        NotComparableError: another pipeline or another plan, or energies of another scope.
    """
    _check_job(plan.pipeline, telemetry.metadata.pipeline, f"the plan and {file}")
    check_scope(plan.scope, "the plan's", telemetry, file)
    notes = _other_device(plan, telemetry)
    found = telemetry.metadata.plan_sha256
    if found == hashlib.sha256(read_bytes(plan_file)).hexdigest():
        return notes
    wrong = _other_clocks(plan, telemetry) or _beyond_clocks(plan)
    if wrong is not None:
        named = "no plan" if found is None else f"the plan with digest {found[:12]}"
        raise NotComparableError(f"{file} is of {named}, not of {plan_file}: {wrong}; give the plan that ran")
    return (
        *notes,
        f"{file} names another plan file than {plan_file}, with the same clock for every operation",
    )


def check_scope(scope: str, whose: str, telemetry: Telemetry, file: str) -> None:
    """Refuse to compare energies that cover different things.

    Raises:
        NotComparableError: says which.
    """
    others = sorted({*telemetry.metadata.scopes} - {scope})
    if others:
        raise NotComparableError(f"{whose} energies are of {scope}, those of {file} of {', '.join(others)}")


def check_profile(profile: Profile, telemetry: Telemetry, file: str) -> tuple[str, ...]:
    """Refuse a profile whose energies cover other things or that was measured with other degrees; note another GPU.

    Raises:
        NotComparableError: says which.
    """
    meta, pipeline = profile.metadata, telemetry.metadata.pipeline
    check_scope(meta.scope, "the profile's", telemetry, file)
    for short, name in _DEGREES.items():
        measured, ran = meta.workload.get(short), getattr(pipeline, name)
        if measured is not None and measured != ran:
            raise NotComparableError(
                f"the profile was measured with {name} {measured}, {file} ran with {ran}"
            )
    per_stage = pipeline.tensor_parallel * pipeline.context_parallel
    if meta.gpus_per_stage not in (1, per_stage):
        raise NotComparableError(
            f"the profile's rows stand for {meta.gpus_per_stage} GPUs of a stage, {file} ran with {per_stage}"
        )
    others = _others(meta.device_name, telemetry)
    return (f"the profile is of {meta.device_name}, and {file} ran on {others}",) if others else ()


def check_baseline(run: Run, baseline: Run, files: tuple[str, str]) -> None:
    """Refuse a baseline of another job, other GPUs or another number of them.

    Raises:
        NotComparableError: names the difference.
    """
    one, other = run.metadata, baseline.metadata
    _check_job(one.pipeline, other.pipeline, f"{files[0]} and {files[1]}")
    if one.pipeline.data_parallel != other.pipeline.data_parallel or one.world_size != other.world_size:
        raise NotComparableError(
            f"cannot compare {files[0]} on {one.world_size} ranks with {files[1]} on {other.world_size}"
        )
    for kinds in ((gpu_names(one), gpu_names(other)), (list(one.scopes), list(other.scopes))):
        if all(kinds) and kinds[0] != kinds[1]:  # what could not be read says nothing
            raise NotComparableError(f"cannot compare {files[0]} ({kinds[0]}) with {files[1]} ({kinds[1]})")


def gpu_names(metadata: TelemetryMetadata) -> list[str]:
    """The names of a run's GPUs, as far as they were read, each once."""
    return sorted({gpu.name for gpu in metadata.gpus if gpu.name is not None})


def _check_job(one: Pipeline, other: Pipeline, files: str) -> None:
    """Data parallelism may differ: a plan holds for each replica."""
    difference = same_job(one, replace(other, data_parallel=one.data_parallel))
    if difference is not None:
        raise NotComparableError(f"{files} are of different jobs: {difference}")


def _other_device(plan: Plan, telemetry: Telemetry) -> tuple[str, ...]:
    others = _others(plan.device_name, telemetry)
    return (f"the plan is for {plan.device_name}, and ran on {others}",) if others else ()


def _others(device_name: str, telemetry: Telemetry) -> str:
    """The names of a run's GPUs that are not this one's."""
    return ", ".join(name for name in gpu_names(telemetry.metadata) if name != device_name)


def _other_clocks(plan: Plan, telemetry: Telemetry) -> str | None:
    """The first operation whose clock is not the plan's, in words; None where all are.

    What the plan does not have, such as the optimizer, runs at a clock of the shim's own.
    """
    rows = telemetry.ops
    rows = rows.filter(pc.equal(rows["alternative"], 0))
    found = rows.group_by([*_NAMES, "sm_clock_mhz"], use_threads=False).aggregate([]).to_pylist()
    planned = {
        (stage, str(op.op), op.chunk, op.microbatch): op.sm_clock_mhz
        for stage, ops in enumerate(plan.stages)
        for op in ops
    }
    asked = sorted((name, row["sm_clock_mhz"] or 0) for row in found if (name := _name(row)) in planned)
    if not asked:
        return "no operation of it is recorded to tell by"
    for name, clock in asked:
        if clock != planned[name]:
            stage, op, _, microbatch = name
            return (
                f"{op} of microbatch {microbatch} on stage {stage} asked for {clock or 'no'} MHz, this plan for "
                f"{planned[name]}"
            )
    return None


def _beyond_clocks(plan: Plan) -> str | None:
    """Why equal clocks do not make a run one of this plan; None where they do."""
    ops = [op for stage in plan.stages for op in stage]
    other = sum(op.nanobatches > 1 or bool(op.partitions) for op in ops)
    if not other:
        return None
    return (
        f"its clocks are this plan's, but runs do not record nanobatches and partitions, which this plan sets in "
        f"{other} operations"
    )


def _name(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["stage"], row["op"], row["chunk"] or 0, row["microbatch"]
