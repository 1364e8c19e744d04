"""Rows of whole operations for a new layout, from the rows of their partitions.

An operation's own row is the sum of its plain partitions in a profile as it is measured; after `calibrate` it also
holds what lies between them in training. Its ratio to that sum, at each clock the mean over all virtual stages of
the profile, goes with it. Standard deviations go with it likewise: those of one partition add in proportion to how
often it runs, for all its runs rest on the same windows; those of different partitions as independent ones do.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from energyopt.planner.composition.rows import config_of
from energyopt.planner.sweep.source import Source
from energyopt.schemas.ops import OpKind
from energyopt.schemas.profile import ProfileRow

_Total = Callable[[Iterable[ProfileRow]], float | None]
_Totals = dict[str, _Total]


def _sum(name: str) -> _Total:
    return lambda rows: math.fsum(row.count * getattr(row, name) for row in rows)


def _spread(name: str) -> _Total:
    def total(rows: Iterable[ProfileRow]) -> float | None:
        parts = [(row.count, getattr(row, name)) for row in rows]
        return None if any(std is None for _, std in parts) else math.hypot(*(n * std for n, std in parts))

    return total


_TOTALS: _Totals = {
    "time_s": _sum("time_s"),
    "time_std_s": _spread("time_std_s"),
    "energy_j": _sum("energy_j"),
    "energy_std_j": _spread("energy_std_j"),
}
"""How an operation's numbers follow from its plain partitions."""


class OpRows:
    """Makes the rows of operations of one kind."""

    def __init__(self, source: Source, kind: OpKind) -> None:
        self._own = {virtual: rows for (one, virtual), rows in source.ops.items() if one is kind}
        self._plain = {
            virtual: plain_rows(rows) for (one, virtual), rows in source.partitions.items() if one is kind
        }
        clocks = sorted({clock for rows in self._own.values() for clock in rows})
        self._ratios = {clock: self._ratios_at(clock) for clock in clocks}

    def rows(
        self, partitions: Sequence[ProfileRow], like: int, stage: int, chunk: int
    ) -> Iterable[ProfileRow]:
        """The operation's row at every clock that all its partitions have.

        partitions: rows of one virtual stage of the new layout; like: the profile's virtual stage that it is like.
        """
        by_clock, names = plain_rows(partitions), {row.partition for row in partitions}
        for clock, own in sorted(self._own.get(like, {}).items()):
            parts = by_clock.get(clock, [])
            if {row.partition for row in parts} == names:
                yield self._row(own, parts, self._ratios[clock], stage, chunk)

    def _row(
        self,
        own: ProfileRow,
        parts: list[ProfileRow],
        ratios: dict[str, float | None],
        stage: int,
        chunk: int,
    ) -> ProfileRow:
        found: dict[str, float | None] = {}
        for name, total in _TOTALS.items():
            value, ratio = total(parts), ratios[name]
            found[name] = None if value is None or ratio is None else value * ratio
        invalid = next((row.invalid for row in parts if row.invalid is not None), own.invalid)
        return replace(own, stage=stage, chunk=chunk, count=1, invalid=invalid, **found)  # type: ignore[arg-type]

    def _ratios_at(self, clock: int) -> dict[str, float | None]:
        """What operations cost relative to their plain partitions; 1 where no stage tells."""
        pairs = [
            (rows[clock], self._plain.get(virtual, {}).get(clock, [])) for virtual, rows in self._own.items()
        ]
        usable = [(row, parts) for row, parts in pairs if parts and _all_usable([row, *parts])]
        return {name: _ratio(name, total, usable) for name, total in _TOTALS.items()}


def plain_rows(rows: Iterable[ProfileRow]) -> dict[int, list[ProfileRow]]:
    """By clock, the rows of partitions run as nobody planned them: one after the other, the microbatch whole."""
    found: dict[int, list[ProfileRow]] = {}
    for row in rows:
        if row.nanobatches in {None, 1} and config_of(row).is_plain:
            found.setdefault(row.sm_clock_mhz, []).append(row)
    return found


def _ratio(name: str, total: _Total, pairs: Sequence[tuple[ProfileRow, list[ProfileRow]]]) -> float | None:
    """None for deviations that nobody knows."""
    found = []
    for row, parts in pairs:
        value, sums = getattr(row, name), total(parts)
        if value is not None and sums:
            found.append(row.count * value / sums)
    if found:
        return fmean(found)
    return None if name.split("_")[1] == "std" else 1.0


def _all_usable(rows: Iterable[ProfileRow]) -> bool:
    return all(row.invalid is None for row in rows)
