"""What an operation can run at: measured operating points, their Pareto front and its lower convex hull."""

from collections.abc import Iterable, Sequence

from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.options import Option
from energyopt.schemas.profile import Level, Profile, ProfileRow

OptionTable = dict[OpKey, tuple[Option, ...]]

_Served = tuple[int | None, int | None, OpKind]  # stage and chunk, or None for every one; and the kind
_SPLIT = (OpKind.BACKWARD_INPUT, OpKind.BACKWARD_WEIGHT)
_SHOWN = 8


def measured_options(profile: Profile, keys: Iterable[OpKey]) -> OptionTable:
    """All usable operating points of each key, by rising clock.

    A row whose stage or chunk is null serves every stage or chunk that has no row of its own.

    Raises:
        ProfileError: no row serves a key, or two rows give the same clock.
    """
    rows: dict[_Served, list[ProfileRow]] = {}
    for row in profile.rows:
        if row.level is Level.OP and row.invalid is None:
            rows.setdefault((row.stage, row.chunk, row.op), []).append(row)
    return {key: _options_of(key, _serving_rows(rows, key)) for key in sorted(set(keys))}


def draws_less_than_waiting(profile: Profile) -> list[str]:
    """Which operations have a row that draws less than the wait power: a sign of a wrong wait power."""
    wait_w = profile.metadata.wait_power_w
    found = {
        (row.stage is not None, row.stage or 0, row.chunk or 0, row.op)
        for row in profile.rows
        if row.level is Level.OP and row.invalid is None and row.energy_j < wait_w * row.time_s
    }
    return [
        f"{kind} of {_place(stage if staged else None, chunk)}"
        for staged, stage, chunk, kind in sorted(found)
    ]


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


def serving(key: OpKey) -> tuple[_Served, ...]:
    """Where rows for a key may stand, those that are most its own first."""
    return (
        (key.stage, key.chunk, key.kind),
        (key.stage, None, key.kind),
        (None, key.chunk, key.kind),
        (None, None, key.kind),
    )


def _serving_rows(rows: dict[_Served, list[ProfileRow]], key: OpKey) -> list[ProfileRow]:
    for place in serving(key):
        if found := rows.get(place):
            return found
    raise ProfileError(f"the profile has no usable row for {key}; {_nearest(rows, key.kind)}")


def _nearest(rows: Iterable[_Served], kind: OpKind) -> str:
    """What the profile has of a kind that lacks a row, or else which kinds it has."""
    served = sorted(
        {(stage, chunk) for stage, chunk, op in rows if op == kind},
        key=lambda one: (one[0] is not None, one[0] or 0, one[1] is not None, one[1] or 0),
    )
    if served:
        shown = "; ".join(_place(stage, chunk, explicit=True) for stage, chunk in served[:_SHOWN])
        more = f"; and {len(served) - _SHOWN} more" if len(served) > _SHOWN else ""
        return f"it has {kind} of {shown}{more}: every stage and chunk of the schedule needs rows"
    known = ", ".join(sorted({str(op) for _, _, op in rows})) or "no operation at all"
    hint = (
        f": zero-bubble schedules need rows of {' and '.join(_SPLIT)} (profile --split-backward)"
        if kind in _SPLIT
        else ""
    )
    return f"it has rows of {known}{hint}"


def _place(stage: int | None, chunk: int | None, *, explicit: bool = False) -> str:
    """Where a row serves, in words; chunk 0 and rows for every chunk are told apart only when `explicit`."""
    name = "every stage" if stage is None else f"stage {stage}"
    if explicit:
        return f"{name}, {'every chunk' if chunk is None else f'chunk {chunk}'}"
    return f"{name}, chunk {chunk}" if chunk else name


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
