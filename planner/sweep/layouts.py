"""The layouts that a sweep's lists combine to, and why other combinations make none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from energyopt.planner.schedules.registry import SCHEDULES, build_schedule
from energyopt.planner.sweep.relayout import split_for
from energyopt.planner.sweep.source import layers_of, stages_of
from energyopt.schemas.errors import EnergyoptError, ProfileError, RequestError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.profile import Level, Profile
from energyopt.schemas.profile_metadata import ProfileMetadata
from energyopt.schemas.sweep import Layout, LeftOut
from energyopt.schemas.sweep_request import SweepRequest

_SAME = ("device_name", "device_kind", "scope")
_SAME_WORKLOAD = ("model", "sequence_length", "dtype")


class _NoLayoutError(Exception):
    """A combination makes no layout; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a profile says of the layout that it was measured in; of user's workloads only what they say.

    replicas: over which weights are sharded, 1 where they are not. sequence_length: tokens of each sequence.
    """

    name: str
    tensor_parallel: int
    context_parallel: int
    replicas: int
    microbatch_size: int
    sequence_length: int
    stages: int
    layers: tuple[int, ...]
    kinds: frozenset[OpKind]


def expand(
    request: SweepRequest, profiles: Mapping[str, Profile]
) -> tuple[tuple[Layout, ...], tuple[LeftOut, ...]]:
    """All layouts of a sweep, and what was left out, in the order of the request's lists.

    Sizes have to divide: nothing is ever rounded, so that all layouts train on the same global batch.

    Raises:
        RequestError: profiles of different models or GPUs, an unknown schedule, or no layout at all.
        ProfileError: a profile does not say what layouts follow from.
    """
    _check_same(profiles)
    if unknown := [name for name in request.schedules if name not in SCHEDULES]:
        raise RequestError(f"unknown schedule {unknown[0]!r}: a sweep knows {', '.join(SCHEDULES)}")
    layouts: list[Layout] = []
    left_out: list[LeftOut] = []
    for measured in [_measured(name, profile) for name, profile in profiles.items()]:
        for gpus, stages, chunks, schedule in product(
            request.gpus, request.stages, request.chunks, request.schedules
        ):
            try:
                layouts.append(_layout(request, measured, gpus, stages, chunks, schedule))
            except _NoLayoutError as reason:
                name = f"{measured.name} pp{stages}x{chunks} {schedule} on {gpus} GPUs"
                left_out.append(LeftOut(combination=name, reason=str(reason)))
    if not layouts:
        raise RequestError(
            f"none of the {len(left_out)} combinations makes a layout: {left_out[0].combination}: "
            f"{left_out[0].reason}"
        )
    return tuple(layouts), tuple(left_out)


def names_of(layouts: Sequence[Layout]) -> list[str]:
    """A name for each layout; where two profiles give the same one, the profile's stands behind it."""
    names = [layout.name for layout in layouts]
    return [
        f"{name} ({Path(layout.profile).stem})" if names.count(name) > 1 else name
        for name, layout in zip(names, layouts, strict=True)
    ]


def setting(metadata: ProfileMetadata, name: str, default: int | None = None) -> int:
    """A number of the workload that was profiled.

    Raises:
        ProfileError: it is missing, or no such number.
    """
    value = metadata.workload.get(name, default)
    if not isinstance(value, int) or value < 1:
        raise ProfileError(
            f"the profile's workload has no {name}, which layouts follow from: profile with energyopt profile"
        )
    return value


def _check_same(profiles: Mapping[str, Profile]) -> None:
    """Refuse to rank what cannot be compared: other models, lengths of sequences, GPUs, scopes of power."""
    (first, reference), *others = profiles.items()
    for path, profile in others:
        one, other = profile.metadata, reference.metadata
        pairs = {name: (getattr(one, name), getattr(other, name)) for name in _SAME}
        pairs |= {name: (one.workload.get(name), other.workload.get(name)) for name in _SAME_WORKLOAD}
        for name, (mine, theirs) in pairs.items():
            if mine != theirs:
                raise RequestError(
                    f"{path} and {first} cannot be ranked together: their {name.replace('_', ' ')} is {mine} "
                    f"and {theirs}"
                )


def _measured(name: str, profile: Profile) -> Measured:
    metadata = profile.metadata
    try:
        return Measured(
            name=name,
            tensor_parallel=setting(metadata, "tp", 1),
            context_parallel=setting(metadata, "cp", 1),
            replicas=setting(metadata, "dp", 1),
            microbatch_size=setting(metadata, "microbatch_size"),
            sequence_length=setting(metadata, "sequence_length"),
            stages=stages_of(profile),
            layers=layers_of(metadata),
            kinds=frozenset(row.op for row in profile.rows if row.level is not Level.KERNEL),
        )
    except ProfileError as error:
        raise ProfileError(f"{name}: {error}") from error


def _layout(
    request: SweepRequest, measured: Measured, gpus: int, stages: int, chunks: int, schedule: str
) -> Layout:
    _check_schedule(request, measured, stages, chunks, schedule)
    replica = measured.tensor_parallel * measured.context_parallel * stages
    data_parallel = _divided(gpus, replica, f"{gpus} GPUs", f"replicas of {replica}")
    if measured.replicas not in (1, data_parallel):
        raise _NoLayoutError(
            f"weights were sharded over {measured.replicas} replicas when it was profiled, the layout has "
            f"{data_parallel}"
        )
    batch = measured.microbatch_size * data_parallel
    microbatches = _divided(
        request.global_batch,
        batch,
        f"{request.global_batch} sequences",
        f"microbatches of {measured.microbatch_size} on {data_parallel} replicas",
    )
    if request.microbatches is not None and microbatches not in request.microbatches:
        raise _NoLayoutError(f"{microbatches} microbatches are none of those asked for")
    return Layout(
        profile=measured.name,
        stages=stages,
        chunks_per_stage=chunks,
        schedule=schedule,
        microbatches=microbatches,
        microbatch_size=measured.microbatch_size,
        tensor_parallel=measured.tensor_parallel,
        context_parallel=measured.context_parallel,
        data_parallel=data_parallel,
        layers_per_stage=_split(measured, stages, chunks),
    )


def _check_schedule(
    request: SweepRequest, measured: Measured, stages: int, chunks: int, schedule: str
) -> None:
    try:
        one = build_schedule(
            Pipeline(stages=stages, microbatches=1, schedule=schedule, chunks_per_stage=chunks)
        )
    except EnergyoptError as error:
        raise _NoLayoutError(str(error)) from error
    if schedule == "interleaved-1f1b" and chunks == 1 and "1f1b" in request.schedules:
        raise _NoLayoutError("with one chunk it is 1f1b, which is there")
    if lacking := sorted({op.kind for op in one.ops} - measured.kinds):
        raise _NoLayoutError(f"the profile has no rows of {' and '.join(lacking)}")


def _split(measured: Measured, stages: int, chunks: int) -> tuple[int, ...]:
    try:
        return split_for(measured.layers, measured.stages, stages, chunks)
    except ProfileError as error:
        raise _NoLayoutError(str(error)) from error


def _divided(whole: int, part: int, what: str, into: str) -> int:
    if whole % part:
        raise _NoLayoutError(f"{what} do not divide into {into}")
    return whole // part
