"""A profile's partition rows, sorted by the way an operation is carried out, by clock and by partition.

A way is a number of nanobatches. Rows that name none serve every way: an embedding costs the same however the
microbatch is cut. All partitions of an operation share its clock, so that a way can run at a clock where every one
of its partitions was measured.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey
from energyopt.schemas.partitions import Execution, PartitionConfig
from energyopt.schemas.profile import ProfileRow

_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choices:
    """What was measured of one partition at one clock, in all its occurrences in the operation together.

    passes: how often the operation comes to it: once for all parts of a microbatch, which follow each other.
    """

    partition: str
    passes: int
    configs: tuple[PartitionConfig, ...]  # [K]
    time_s: Floats  # [K]
    energy_j: Floats  # [K]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Way:
    """One way to carry an operation out: by clock, the choices of its partitions in order of name."""

    nanobatches: int
    clocks: dict[int, tuple[Choices, ...]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ways:
    """All ways of an operation, and what keeps them from running at a clock, in words."""

    ways: tuple[Way, ...]
    missing: tuple[str, ...]


_Measured = dict[str, dict[int, list[ProfileRow]]]  # by partition and clock


def sort_rows(rows: Sequence[ProfileRow], key: OpKey) -> Ways:
    """The ways that an operation's partition rows describe.

    Raises:
        ProfileError: two rows of one configuration, rows that count a partition differently, or a configuration
            that cannot be.
    """
    _check(rows, key)
    counts = sorted({row.nanobatches for row in rows if row.nanobatches is not None}) or [1]
    found, missing = [], []
    for count in counts:
        own = [row for row in rows if row.nanobatches in (count, None)]
        way, lacking = _way(own, count, key, single=len(counts) == 1)
        missing += lacking
        if way.clocks:
            found.append(way)
    return Ways(ways=tuple(found), missing=tuple(missing))


def config_of(row: ProfileRow) -> PartitionConfig:
    """The configuration that a partition row measured.

    Raises:
        ProfileError: it names none that exists.
    """
    execution = row.execution or Execution.SEQUENTIAL
    if execution not in list(Execution):
        raise ProfileError(
            f"{_place(row)}: execution {execution!r} is none of {', '.join(Execution)}; profile again"
        )
    if execution == Execution.OVERLAPPED and row.comm_launch is None:
        raise ProfileError(f"{_place(row)}: it runs overlapped and has no comm_launch; profile again")
    launch = row.comm_launch if execution == Execution.OVERLAPPED else None
    return PartitionConfig(execution=Execution(execution), comm_sms=row.comm_sms, comm_launch=launch)


def _check(rows: Iterable[ProfileRow], key: OpKey) -> None:
    """Refuse two rows for one thing: which of them holds?

    A row without a number of nanobatches serves every number, so that one with a number contradicts it.
    """
    seen: dict[tuple[str | None, PartitionConfig, int], set[int | None]] = {}
    counts: dict[tuple[str | None, int | None], int] = {}
    for row in rows:
        if row.invalid is not None:
            continue
        cuts = seen.setdefault((row.partition, config_of(row), row.sm_clock_mhz), set())
        if row.nanobatches in cuts or None in cuts or (cuts and row.nanobatches is None):
            raise ProfileError(
                f"the profile has two rows for partition {row.partition} of the {key} at {row.sm_clock_mhz} MHz "
                f"({config_of(row)}); merge or remove one"
            )
        cuts.add(row.nanobatches)
        count = counts.setdefault((row.partition, row.nanobatches), row.count)
        if row.count != count:
            raise ProfileError(
                f"the profile counts partition {row.partition} of the {key} {count} times in one row and "
                f"{row.count} times in another; profile again"
            )


def _way(rows: Sequence[ProfileRow], count: int, key: OpKey, *, single: bool) -> tuple[Way, list[str]]:
    """One way at the clocks that all its partitions have, and what others lack.

    single: the operation knows no other way, so that rows without a number of nanobatches are its own.
    """
    measured: _Measured = {}
    for row in rows:
        by_clock = measured.setdefault(str(row.partition), {})
        if row.invalid is None:
            by_clock.setdefault(row.sm_clock_mhz, []).append(row)
    own = {str(row.partition) for row in rows if single or row.nanobatches is not None}
    clocks = sorted(set().union(*(measured[name] for name in own)))
    common = [clock for clock in clocks if all(clock in by_clock for by_clock in measured.values())]
    way = Way(
        nanobatches=count,
        clocks={
            clock: tuple(_choices(name, by_clock[clock]) for name, by_clock in sorted(measured.items()))
            for clock in common
        },
    )
    return way, _missing(rows, measured, clocks, count, key)


def _choices(name: str, rows: Sequence[ProfileRow]) -> Choices:
    ranked = sorted(rows, key=lambda row: _rank(config_of(row)))
    return Choices(
        partition=name,
        passes=_passes(ranked[0]),
        configs=tuple(config_of(row) for row in ranked),
        time_s=np.array([row.time_s * row.count for row in ranked]),
        energy_j=np.array([row.energy_j * row.count for row in ranked]),
    )


def _passes(row: ProfileRow) -> int:
    """The parts of a microbatch take their turns at each partition: one communicates while another computes."""
    parts = row.nanobatches or 1
    return row.count // parts if row.count % parts == 0 else row.count


def _rank(config: PartitionConfig) -> tuple[bool, int, str]:
    """Of configurations that cost the same, the sequential one and then that of fewer SMs stays."""
    return config.execution is Execution.OVERLAPPED, config.comm_sms or 0, config.comm_launch or ""


def _missing(
    rows: Sequence[ProfileRow], measured: _Measured, clocks: Sequence[int], count: int, key: OpKey
) -> list[str]:
    found = []
    for name, by_clock in sorted(measured.items()):
        lacking = [clock for clock in clocks if clock not in by_clock]
        if lacking:
            way = f" in {count} nanobatches" if count > 1 else ""
            found.append(
                f"partition {name} of the {key}{way} has no usable row at {_listed(lacking)} MHz"
                f"{_reason(rows, name, set(lacking))}, where its other partitions have"
            )
    return found


def _reason(rows: Sequence[ProfileRow], name: str, clocks: set[int]) -> str:
    reasons = [
        row.invalid for row in rows if row.partition == name and row.sm_clock_mhz in clocks and row.invalid
    ]
    return f" ({reasons[0]})" if reasons else ""


def _listed(clocks: Sequence[int]) -> str:
    shown = ", ".join(map(str, clocks[:_SHOWN]))
    return f"{shown} and {len(clocks) - _SHOWN} more" if len(clocks) > _SHOWN else shown


def _place(row: ProfileRow) -> str:
    stage = "every stage" if row.stage is None else f"stage {row.stage}"
    return f"partition {row.partition} of {row.op} of {stage} at {row.sm_clock_mhz} MHz"
