"""What an operation can run at: measured operating points, their Pareto front and its lower convex hull."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from energyopt.schemas.errors import ProfileError
from energyopt.schemas.frontier import Option
from energyopt.schemas.ops import OpKey
from energyopt.schemas.profile import Level, Profile, ProfileRow

OptionTable = dict[OpKey, tuple[Option, ...]]


def measured_options(profile: Profile, keys: Iterable[OpKey]) -> OptionTable:
    """All usable operating points of each key, by rising clock.

    A row whose stage or chunk is null serves every stage or chunk that has no row of its own.

    Raises:
        ProfileError: no row serves a key, or two rows give the same clock.
    """
    rows: dict[tuple[int | None, int | None, str], list[ProfileRow]] = {}
    for row in profile.rows:
        if row.level is Level.OP and row.invalid is None:
            rows.setdefault((row.stage, row.chunk, row.op), []).append(row)
    return {key: _options_of(key, _serving_rows(rows, key)) for key in sorted(set(keys))}


def draws_less_than_waiting(profile: Profile) -> list[str]:
    """Which operations have a row that draws less than the wait power: a sign of a wrong wait power."""
    wait_w = profile.metadata.wait_power_w
    found = {
        (row.stage or 0, row.chunk or 0, row.op)
        for row in profile.rows
        if row.level is Level.OP and row.invalid is None and row.energy_j < wait_w * row.time_s
    }
    return [str(OpKey(*key)) for key in sorted(found)]


def pareto_front(options: Sequence[Option], wait_power_w: float) -> tuple[Option, ...]:
    """The options that no other beats in time and effective energy, fastest first.

    Effective energy is energy_j - wait_power_w x time_s: what running costs beyond waiting. Of options that tie
    in both, the lower clock stays.
    """

    def effective_j(option: Option) -> float:
        return option.energy_j - wait_power_w * option.time_s

    front: list[Option] = []
    ranked = sorted(options, key=lambda one: (one.time_s, effective_j(one), one.sm_clock_mhz))
    for option in ranked:
        if not front or effective_j(option) < effective_j(front[-1]):
            front.append(option)
    return tuple(front)


def lower_hull(time_s: Sequence[float], energy_j: Sequence[float]) -> NDArray[np.int64]:
    """Indices of the vertices of the lower convex hull of a front (times rising, energies falling)."""
    kept: list[int] = []
    for index in range(len(time_s)):
        while len(kept) >= 2 and _is_above(time_s, energy_j, kept[-2], kept[-1], index):
            kept.pop()
        kept.append(index)
    return np.array(kept, dtype=np.int64)


def _is_above(time_s: Sequence[float], energy_j: Sequence[float], left: int, middle: int, right: int) -> bool:
    """Whether `middle` lies on or above the line from `left` to `right`."""
    rise = (energy_j[middle] - energy_j[left]) * (time_s[right] - time_s[left])
    return rise >= (energy_j[right] - energy_j[left]) * (time_s[middle] - time_s[left])


def _serving_rows(
    rows: dict[tuple[int | None, int | None, str], list[ProfileRow]], key: OpKey
) -> list[ProfileRow]:
    for stage, chunk in ((key.stage, key.chunk), (key.stage, None), (None, key.chunk), (None, None)):
        if found := rows.get((stage, chunk, key.kind)):
            return found
    known = sorted({str(op) for _, _, op in rows})
    raise ProfileError(
        f"the profile has no usable row for {key}; it has rows of {', '.join(known) or 'no operation at all'}"
    )


def _options_of(key: OpKey, rows: list[ProfileRow]) -> tuple[Option, ...]:
    found: dict[int, Option] = {}
    for row in rows:
        clock = row.sm_clock_mhz
        if clock in found:
            raise ProfileError(f"the profile has two rows for {key} at {clock} MHz; merge or remove one")
        found[clock] = Option(
            sm_clock_mhz=clock, time_s=row.time_s * row.count, energy_j=row.energy_j * row.count
        )
    return tuple(found[clock] for clock in sorted(found))
