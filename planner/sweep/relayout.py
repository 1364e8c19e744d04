"""A profile's rows for another number of stages and chunks, from what its layers and extras cost."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from energyopt.planner.sweep.op_rows import OpRows
from energyopt.planner.sweep.source import Role, Source, layers_of, source_of, stages_of
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.layers import even_split
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.partition_order import PartitionOrder
from energyopt.schemas.profile import Level, Profile, ProfileRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The layout that rows are wanted for; layers of each virtual stage, in the model's order."""

    stages: int
    layers: tuple[int, ...]

    def place(self, virtual: int) -> tuple[int, int]:
        """The stage and the chunk of a virtual stage."""
        return virtual % self.stages, virtual // self.stages

    def role(self, virtual: int) -> set[Role]:
        """What a virtual stage runs."""
        ends = {Role.FIRST: virtual == 0, Role.LAST: virtual == len(self.layers) - 1}
        return {Role.LAYER} | {role for role, here in ends.items() if here}


def split_for(layers: tuple[int, ...], profiled_stages: int, stages: int, chunks: int) -> tuple[int, ...]:
    """Layers of each virtual stage of a layout: the profile's own where it has that layout, else an even split.

    Raises:
        ProfileError: more virtual stages than layers.
    """
    if len(layers) == stages * chunks and profiled_stages == stages:
        return layers
    if sum(layers) < stages * chunks:
        raise ProfileError(f"{sum(layers)} layers cannot fill {stages} stages of {chunks} chunks")
    return even_split(sum(layers), stages * chunks)


def relaid(profile: Profile, stages: int, chunks: int, profile_sha256: str) -> Profile:
    """The profile that measuring the model in another layout would have given.

    Every layer costs what the profile's layers do; the first virtual stage has the embedding, the last the output
    head and the loss. The profile's own layout is the profile itself.

    profile_sha256: the profile's digest, which is recorded in the new one.

    Raises:
        ProfileError: more virtual stages than layers, or rows that cannot be told apart, see `source_of`.
    """
    own = layers_of(profile.metadata)
    layers = split_for(own, stages_of(profile), stages, chunks)
    if (stages, layers) == (stages_of(profile), own):
        return profile
    source, target = source_of(profile), Target(stages=stages, layers=layers)
    kernels = [row for row in profile.rows if row.level is Level.KERNEL]
    return Profile(
        metadata=replace(
            profile.metadata,
            workload=profile.metadata.workload | {"layers_per_stage": ",".join(map(str, layers))},
            measurement=profile.metadata.measurement | {"laid_out_from": profile_sha256},
            partition_order=_order(source, target),
        ),
        rows=(*kernels, *(row for kind in source.kinds for row in _rows(source, kind, target))),
    )


def _rows(source: Source, kind: OpKind, target: Target) -> Iterator[ProfileRow]:
    maker, count = OpRows(source, kind), len(target.layers)
    for virtual, layers in enumerate(target.layers):
        stage, chunk = target.place(virtual)
        rows = [
            replace(row, stage=stage, chunk=chunk, count=_count(source, row, one, role, layers))
            for role, one in _origins(source, target, virtual)
            for row in source.partitions.get((kind, one), ())
            if source.roles[kind, str(row.partition)] is role
        ]
        yield from rows
        yield from maker.rows(rows, source.like(virtual, count), stage, chunk)


def _origins(source: Source, target: Target, virtual: int) -> Iterator[tuple[Role, int]]:
    """What a virtual stage runs, and from which of the profile's virtual stages it is taken."""
    ends = {Role.FIRST: 0, Role.LAST: len(source.layers) - 1}
    for role in sorted(target.role(virtual)):
        yield role, ends.get(role, source.like(virtual, len(target.layers)))


def _count(source: Source, row: ProfileRow, virtual: int, role: Role, layers: int) -> int:
    """How often a partition runs in a virtual stage of so many layers."""
    return row.count // source.layers[virtual] * layers if role is Role.LAYER else row.count


def _order(source: Source, target: Target) -> PartitionOrder:
    """The order of partitions in every operation that has several, where the profile knows it."""
    found: PartitionOrder = {}
    for kind in source.kinds:
        for virtual in range(len(target.layers)):
            names = _names(source, kind, target, virtual)
            if len(names) > 1:
                found[OpKey(*target.place(virtual), kind)] = names
    return found


def _names(source: Source, kind: OpKind, target: Target, virtual: int) -> tuple[str, ...]:
    """A forward runs the first virtual stage's extras, the layers and the last one's; a backward the other way."""
    order = source.profile.metadata.partition_order
    found: dict[Role, list[str]] = {}
    for role, one in _origins(source, target, virtual):
        names = order.get(OpKey(one % source.stages, one // source.stages, kind), ())
        found[role] = [name for name in names if source.roles.get((kind, name)) is role]
    roles = (Role.FIRST, Role.LAYER, Role.LAST)
    passed = roles if kind is OpKind.FORWARD else reversed(roles)
    return tuple(name for role in passed for name in found.get(role, ()))
