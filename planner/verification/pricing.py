"""What a profile says that an operation costs, carried out as a plan wants it: one option for each clock.

A plain operation costs what its own row says. One that cuts its microbatch, or overlaps partitions, costs what its
partitions cost in just these configurations, in proportion to the operation's own row, as when it was planned.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from energyopt.planner.composition.compose import scales_at
from energyopt.planner.composition.rows import Choices, Way, sort_rows
from energyopt.planner.composition.table import check_complete, partition_rows
from energyopt.planner.options import measured_options, serving
from energyopt.schemas.ops import OpKey
from energyopt.schemas.options import Option
from energyopt.schemas.partitions import PLAIN, PartitionConfig, Partitions, named
from energyopt.schemas.planned_ops import PlannedOp
from energyopt.schemas.profile import Level, Profile

Manner = tuple[int, Partitions]
"""How an operation is carried out: nanobatches, and the partitions that do not run plainly."""

PLAIN_MANNER: Manner = (1, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What an operation costs at each clock that tells, by rising clock; why: why there is none."""

    options: tuple[Option, ...]
    why: str | None = None


def manner_of(op: PlannedOp) -> Manner:
    """How a plan wants an operation carried out."""
    return op.nanobatches, named(op.partitions)


class Prices:
    """Looks the operations of some keys up in a profile."""

    def __init__(self, profile: Profile, keys: Iterable[OpKey]) -> None:
        self._profile = profile
        self._whole = {
            (row.stage, row.chunk, row.op)
            for row in profile.rows
            if row.level is Level.OP and row.invalid is None
        }
        self._rows = partition_rows(profile, sorted(set(keys)), set())
        self._ways: dict[OpKey, tuple[Way, ...]] = {}
        self._series: dict[tuple[OpKey, Manner], Series] = {}

    def series(self, key: OpKey, manner: Manner = PLAIN_MANNER) -> Series:
        """The options of an operation that is carried out in one manner.

        Raises:
            ProfileError: the profile has nothing of the operation at all, lacks a partition of it, or has two rows
                for one thing.
        """
        if (key, manner) not in self._series:
            self._series[key, manner] = self._make(key, manner)
        return self._series[key, manner]

    def _make(self, key: OpKey, manner: Manner) -> Series:
        rows = self._rows[key]
        has_whole = not self._whole.isdisjoint(serving(key))
        whole = measured_options(self._profile, [key])[key] if has_whole or not rows else ()
        if manner == PLAIN_MANNER and whole:
            return Series(options=whole)
        by_clock = {option.sm_clock_mhz: option for option in whole}
        if key not in self._ways:
            check_complete(self._profile, key, rows)
            self._ways[key] = sort_rows(rows, key).ways if rows else ()
        return _composed(self._ways[key], by_clock, manner, key)


def _composed(ways: Sequence[Way], whole: dict[int, Option], manner: Manner, key: OpKey) -> Series:
    count, partitions = manner
    way = next((one for one in ways if one.nanobatches == count), None)
    if way is None:
        cut = f"in {count} nanobatches" if count > 1 else "of the whole microbatch"
        return Series(options=(), why=f"it has no partition rows of the {key} {cut}")
    configs = dict(partitions)
    if any(config.sm_clock_mhz is not None for config in configs.values()):
        why = (
            f"partitions of the {key} have clocks of their own, and rows do not tell what their changes cost"
        )
        return Series(options=(), why=why)
    plain = next((one for one in ways if one.nanobatches == 1), None)
    scales = scales_at(plain, whole, way.clocks)
    options = tuple(
        option
        for clock, choices in sorted(way.clocks.items())
        if not whole or clock in whole
        if (option := _sum(choices, configs, scales[clock], clock, manner))
    )
    return Series(options=options, why=None if options else _lacking(way, configs, key))


def _sum(
    choices: Sequence[Choices],
    configs: dict[str, PartitionConfig],
    scale: tuple[float, float],
    clock: int,
    manner: Manner,
) -> Option | None:
    """All partitions in their configurations at one clock; None where one was not measured so."""
    if not configs.keys() <= {one.partition for one in choices}:
        return None
    time_s = energy_j = 0.0
    for one in choices:
        wanted = configs.get(one.partition, PLAIN)
        if wanted not in one.configs:
            return None
        place = one.configs.index(wanted)
        time_s, energy_j = time_s + float(one.time_s[place]), energy_j + float(one.energy_j[place])
    return Option(
        sm_clock_mhz=clock,
        time_s=time_s * scale[0],
        energy_j=energy_j * scale[1],
        nanobatches=manner[0],
        partitions=manner[1],
    )


def _lacking(way: Way, configs: dict[str, PartitionConfig], key: OpKey) -> str:
    """The first partition that was never measured as it is wanted."""
    measured: dict[str, set[PartitionConfig]] = {}
    for choices in way.clocks.values():
        for one in choices:
            measured.setdefault(one.partition, set()).update(one.configs)
    wanted = {name: configs.get(name, PLAIN) for name in {**measured, **configs}}
    for name, config in sorted(wanted.items()):
        if config not in measured.get(name, set()):
            return f"partition {name} of the {key} was not measured {config}"
    return f"at no clock were all partitions of the {key} measured as the plan runs them"
