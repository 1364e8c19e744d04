"""What the virtual stages of a profile are made of: the same layers in each, and extras in the first and the last.

A partition belongs to the layers where every virtual stage runs it once, or once for each part of a microbatch, per
layer. What only the first or the last virtual stage runs besides (embedding, output head, loss) is an extra. Where
there is one virtual stage, the profile's order of partitions tells which end an extra belongs to.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.profile import Level, Profile, ProfileRow
from energyopt.schemas.profile_metadata import ProfileMetadata

_WHOLE = "it cannot be laid out anew; profile the model with energyopt profile, or sweep its own layout alone"


class Role(StrEnum):
    """What a partition is part of."""

    LAYER = "layer"
    FIRST = "first"
    LAST = "last"


Place = tuple[OpKind, int]  # a kind of operation of a virtual stage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """A profile by virtual stage, in the model's order.

    layers: of each virtual stage. partitions: rows by place. ops: rows by place and clock. roles: by kind and name.
    """

    profile: Profile
    layers: tuple[int, ...]
    stages: int
    partitions: dict[Place, list[ProfileRow]]
    ops: dict[Place, dict[int, ProfileRow]]
    roles: dict[tuple[OpKind, str], Role]

    @property
    def chunks(self) -> int:
        """Chunks on each stage."""
        return len(self.layers) // self.stages

    @property
    def kinds(self) -> list[OpKind]:
        """The kinds of operation that have partitions."""
        return sorted({kind for kind, _ in self.partitions})

    def like(self, virtual: int, count: int) -> int:
        """The virtual stage that virtual stage `virtual` of `count` is most like, among those that have layers."""
        last = len(self.layers) - 1
        wanted = 0 if virtual == 0 else last if virtual == count - 1 else (last + 1) // 2
        return min((abs(one - wanted), one) for one, layers in enumerate(self.layers) if layers)[1]


def source_of(profile: Profile) -> Source:
    """Sort a profile's rows by virtual stage and tell layers from extras.

    Raises:
        ProfileError: it lacks rows of partitions or its layers per stage, or a partition is neither part of a layer
            nor an extra of the first or the last virtual stage.
    """
    layers = layers_of(profile.metadata)
    rows = [row for row in profile.rows if row.level is Level.PARTITION]
    if not rows:
        raise ProfileError(f"the profile has no rows of partitions: {_WHOLE}")
    staged = [row for row in profile.rows if row.level is not Level.KERNEL]
    if any(row.stage is None for row in staged):
        raise ProfileError(f"the profile has rows that serve every stage: {_WHOLE}")
    stages = stages_of(profile)
    if len(layers) % stages or any(_virtual(row, stages) >= len(layers) for row in staged):
        raise ProfileError(
            f"the profile's rows are of {stages} stages and its layers_per_stage of {len(layers)} virtual stages"
        )
    partitions: dict[Place, list[ProfileRow]] = defaultdict(list)
    ops: dict[Place, dict[int, ProfileRow]] = defaultdict(dict)
    for row in staged:
        place = row.op, _virtual(row, stages)
        if row.level is Level.PARTITION:
            partitions[place].append(row)
        else:
            ops[place][row.sm_clock_mhz] = row
    return Source(
        profile=profile,
        layers=layers,
        stages=stages,
        partitions=dict(partitions),
        ops=dict(ops),
        roles=_roles(profile.metadata, partitions, layers),
    )


def layers_of(metadata: ProfileMetadata) -> tuple[int, ...]:
    """Layers of each virtual stage, in the model's order.

    Raises:
        ProfileError: the workload does not say.
    """
    text = str(metadata.workload.get("layers_per_stage", ""))
    numbers = text.split(",")
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise ProfileError(f"the profile's workload has layers_per_stage {text!r}: {_WHOLE}")
    return tuple(map(int, numbers))


def stages_of(profile: Profile) -> int:
    """The number of stages that a profile tells apart."""
    return 1 + max((row.stage or 0 for row in profile.rows if row.level is not Level.KERNEL), default=0)


def _virtual(row: ProfileRow, stages: int) -> int:
    return (row.chunk or 0) * stages + (row.stage or 0)


def _roles(
    metadata: ProfileMetadata, partitions: dict[Place, list[ProfileRow]], layers: Sequence[int]
) -> dict[tuple[OpKind, str], Role]:
    by_name: dict[tuple[OpKind, str], dict[int, list[ProfileRow]]] = {}
    for (kind, virtual), rows in partitions.items():
        for row in rows:
            by_name.setdefault((kind, str(row.partition)), {}).setdefault(virtual, []).append(row)
    if len(layers) == 1:
        return _single_roles({name: found[0] for name, found in by_name.items()}, metadata, layers[0])
    return {name: _role(*name, found, layers) for name, found in by_name.items()}


def _role(kind: OpKind, name: str, rows: dict[int, list[ProfileRow]], layers: Sequence[int]) -> Role:
    full = {virtual for virtual, count in enumerate(layers) if count}
    shares = [_shares(rows[virtual], layers[virtual]) for virtual in sorted(full & set(rows))]
    if set(rows) == full and shares[0] and all(one == shares[0] for one in shares):
        return Role.LAYER
    if set(rows) == {0}:
        return Role.FIRST
    if set(rows) == {len(layers) - 1}:
        return Role.LAST
    where = ", ".join(map(str, sorted(rows)))
    raise ProfileError(
        f"partition {name} of {kind} runs on virtual stages {where}, neither as often as these have layers nor on "
        f"the first or the last alone: {_WHOLE}"
    )


def _shares(rows: Sequence[ProfileRow], layers: int) -> set[tuple[int | None, float]]:
    """How often a layer runs a partition, by parts of the microbatch; nothing where that is no whole number."""
    found = {(row.nanobatches, row.count / layers) for row in rows}
    return found if all(share.is_integer() for _, share in found) else set()


def _single_roles(
    rows: dict[tuple[OpKind, str], list[ProfileRow]], metadata: ProfileMetadata, layers: int
) -> dict[tuple[OpKind, str], Role]:
    """With one virtual stage: extras run less often than there are layers, before them or after them."""
    roles = {name: Role.LAYER for name, own in rows.items() if layers > 1 and _shares(own, layers)}
    for kind, name in sorted(rows.keys() - roles.keys()):
        order = metadata.partition_order.get(OpKey(0, 0, kind), ())
        layered = [place for place, one in enumerate(order) if roles.get((kind, one)) is Role.LAYER]
        if name not in order or not layered:
            raise ProfileError(
                f"nothing tells whether partition {name} of {kind} stands before or after the layers: {_WHOLE}"
            )
        early = order.index(name) < layered[0]
        roles[kind, name] = Role.FIRST if early == (kind is OpKind.FORWARD) else Role.LAST
    return roles
