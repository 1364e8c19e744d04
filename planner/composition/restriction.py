"""A profile without part of what it offers, to see what each kind of choice is worth."""

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

from energyopt.schemas.errors import ProfileError
from energyopt.schemas.partitions import Execution
from energyopt.schemas.profile import Level, Profile, ProfileRow


class Only(StrEnum):
    """What plans may choose, where not everything."""

    CLOCKS = "clocks"
    OVERLAP = "overlap"


def restricted(profile: Profile, only: Only | None) -> Profile:
    """The profile for plans of clocks alone, what runs being as without a plan, or of overlap at the highest clock.

    Raises:
        ProfileError: nothing is left.
    """
    if only is None:
        return profile
    rows = [row for row in profile.rows if row.level is not Level.KERNEL]
    kept = _as_unplanned(rows) if only is Only.CLOCKS else _at_highest_clock(rows)
    if not kept:
        raise ProfileError(
            f"the profile has no sequential rows to plan from with --only {only}; profile them, or leave it out"
        )
    return replace(profile, rows=tuple(kept))


def _as_unplanned(rows: Iterable[ProfileRow]) -> list[ProfileRow]:
    """Sequential rows, and of the ways to cut a microbatch the one with the fewest parts.

    Those with a number of SMs stay only where nothing says what the library's own choice costs.
    """
    sequential = [row for row in rows if row.execution != Execution.OVERLAPPED]
    fewest = {row.op: 1 for row in sequential if row.level is Level.OP}
    for row in sequential:
        if row.nanobatches is not None:
            fewest[row.op] = min(fewest.get(row.op, row.nanobatches), row.nanobatches)
    kept = [row for row in sequential if row.nanobatches in (None, fewest.get(row.op))]
    plain = {_measured(row) for row in kept if row.comm_sms is None and row.invalid is None}
    return [row for row in kept if row.comm_sms is None or _measured(row) not in plain]


def _measured(row: ProfileRow) -> tuple[object, ...]:
    return row.level, row.stage, row.chunk, row.op, row.partition, row.sm_clock_mhz


def _at_highest_clock(rows: Iterable[ProfileRow]) -> list[ProfileRow]:
    highest: dict[tuple[int | None, int | None, str], int] = {}
    listed = list(rows)
    for row in listed:
        place = row.stage, row.chunk, row.op
        if row.invalid is None:
            highest[place] = max(highest.get(place, 0), row.sm_clock_mhz)
    return [row for row in listed if row.sm_clock_mhz == highest.get((row.stage, row.chunk, row.op))]
