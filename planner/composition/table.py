"""The options of every operation of a schedule, composed from partition rows where a profile has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from energyopt.planner.composition.compose import Composed, compose, tells_scale
from energyopt.planner.composition.rows import Ways, sort_rows
from energyopt.planner.composition.shares import Shares
from energyopt.planner.composition.switching import Mixing, SwitchCost
from energyopt.planner.composition.ways import by_ways, in_ways
from energyopt.planner.options import OptionTable, measured_options, serving
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey
from energyopt.schemas.options import Option
from energyopt.schemas.partitions import Execution
from energyopt.schemas.profile import Level, Profile, ProfileRow

_TABLE = 2**17  # operations times options that the search for plans can lay out in tables
_FEWEST, _MOST = 64, 512

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """How options are made from partitions.

    most: options of an operation that plans choose from; 0 for the whole front, None for what a schedule of that
        size allows.
    allow_missing: leave clocks out at which a partition lacks a row, and what lies between partitions where nothing
        tells it, instead of refusing the profile.
    switch: what a change of the clock between two partitions costs, where they may run at different clocks; None
        where they may not.
    """

    most: int | None = None
    allow_missing: bool = False
    switch: SwitchCost | None = None

    def most_for(self, n_ops: int) -> int | None:
        """The number for a schedule of so many operations; None for the whole front."""
        if self.most is None:
            return min(max(_TABLE // max(n_ops, 1), _FEWEST), _MOST)
        return self.most or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What the operations of a schedule can run at.

    offered: by number of nanobatches, what plans choose from. The forward and the backward of a microbatch have to
        be cut alike, so that a plan keeps to one way; operations that cannot be cut run whole in every one.
    measured: what bounds are over, all ways together.
    error: how much dearer thinning can make an operation, relative; missing: what was left out, in words.
    shares: see `Composed`, for the keys that are composed.
    """

    offered: dict[int, OptionTable]
    measured: OptionTable
    error: float = 0.0
    missing: tuple[str, ...] = ()
    shares: dict[OpKey, dict[Option, Shares]] = field(default_factory=dict)


def offered_options(profile: Profile, keys: Sequence[OpKey], composition: Composition) -> Offer:
    """The options of each key; a schedule's operations give one key each.

    Raises:
        ProfileError: a key has no usable rows, rows contradict each other, a partition is missing or lacks a clock
            that others have, or nothing tells what an operation costs beside its partitions.
    """
    wanted, most = sorted(set(keys)), composition.most_for(len(keys))
    whole_places = {
        (row.stage, row.chunk, row.op)
        for row in profile.rows
        if row.level is Level.OP and row.invalid is None
    }
    as_a_whole = {key for key in wanted if not whole_places.isdisjoint(serving(key))}
    partitions = partition_rows(profile, wanted, as_a_whole if composition.switch is None else set())
    plain = measured_options(profile, [key for key in wanted if key in as_a_whole or not partitions[key]])
    made: dict[tuple[object, ...], Composed] = {}
    offered: dict[OpKey, dict[int, tuple[Option, ...]]] = {}
    measured, shares, missing, error = {}, {}, [], 0.0
    for key in wanted:
        if not partitions[key]:
            offered[key], measured[key] = {1: plain[key]}, plain[key]
            continue
        check_complete(profile, key, partitions[key])
        ways = sort_rows(partitions[key], key)
        whole = {option.sm_clock_mhz: option for option in plain.get(key, ())}
        missing += [*ways.missing, *_not_whole(ways, whole, key), *_unscaled(ways, whole, key)]
        mixing = _mixing(profile, key, composition)
        same = *_content(partitions[key], whole), mixing and mixing.order
        if same not in made:
            made[same] = _composed(profile, ways, whole, most, mixing, key)
        one = made[same]
        offered[key], measured[key], shares[key] = one.offered, one.measured, one.shares
        error = max(error, one.error)
    _check_missing(missing, composition)
    by_way, unlike = by_ways(offered)
    return Offer(
        offered=by_way,
        measured=in_ways(measured, offered, by_way),
        error=error,
        missing=(*missing, *unlike),
        shares=shares,
    )


def partition_rows(
    profile: Profile, keys: list[OpKey], as_a_whole: set[OpKey]
) -> dict[OpKey, list[ProfileRow]]:
    """The partition rows of each key; none where they say no more than the row of the operation itself.

    Of each partition the rows that are most the key's own count: of its stage and chunk, its stage, its chunk, any;
    those of which none is valid only where all others are not either.
    """
    rows: dict[tuple[object, str | None], list[ProfileRow]] = {}
    names: dict[object, dict[str | None, None]] = {}
    for row in profile.rows:
        if row.level is Level.PARTITION:
            rows.setdefault(((row.stage, row.chunk, row.op), row.partition), []).append(row)
            names.setdefault(row.op, {})[row.partition] = None
    found = {}
    for key in keys:
        own: list[ProfileRow] = []
        for name in names.get(key.kind, ()):
            found_at = [rows[place, name] for place in serving(key) if (place, name) in rows]
            usable = [one for one in found_at if any(row.invalid is None for row in one)]
            own += next(iter(usable or found_at), [])
        found[key] = own if key not in as_a_whole or say_more(own) else []
    return found


def check_complete(profile: Profile, key: OpKey, rows: Sequence[ProfileRow]) -> None:
    """Refuse partition rows that lack one of the partitions which the profile says the operation is made of.

    Raises:
        ProfileError: names the partition and the operation.
    """
    known = {row.partition for row in rows}
    lacking = [name for name in profile.metadata.partition_order.get(key, ()) if name not in known]
    if rows and lacking:
        raise ProfileError(
            f"the profile has no rows to plan from of partition {lacking[0]} of the {key}, which runs it; "
            "profile it"
        )


def say_more(rows: list[ProfileRow]) -> bool:
    """Whether partition rows offer more than the operation's own row."""
    return any(
        row.execution == Execution.OVERLAPPED or row.nanobatches not in {None, 1} or row.comm_sms
        for row in rows
    )


def _composed(
    profile: Profile,
    ways: Ways,
    whole: Mapping[int, Option],
    most: int | None,
    mixing: Mixing | None,
    key: OpKey,
) -> Composed:
    if not ways.ways and not whole:
        reason = f": {ways.missing[0]}" if ways.missing else ""
        raise ProfileError(
            f"no clock has a usable row of every partition of the {key}{reason}; profile again"
        )
    return compose(ways.ways, whole, profile.metadata.wait_power_w, most, mixing)


def _mixing(profile: Profile, key: OpKey, composition: Composition) -> Mixing | None:
    if composition.switch is None:
        return None
    order = profile.metadata.partition_order.get(key)
    return Mixing(cost=composition.switch, order=order, what=str(key))


def _not_whole(ways: Ways, whole: Mapping[int, Option], key: OpKey) -> list[str]:
    """Where partitions were measured and the operation, which has rows of its own, was not."""
    clocks = sorted({clock for way in ways.ways for clock in way.clocks} - set(whole))
    if not whole or not clocks:
        return []
    for way in ways.ways:
        for clock in clocks:
            way.clocks.pop(clock, None)
    return [f"the {key} has no usable row at {', '.join(map(str, clocks))} MHz, where its partitions have"]


def _unscaled(ways: Ways, whole: Mapping[int, Option], key: OpKey) -> list[str]:
    """Where the operation's own rows have no plain sum of partitions to compare them with."""
    composed = any(way.clocks for way in ways.ways)
    if not whole or not composed or tells_scale(ways.ways, whole):
        return []
    return [
        f"the {key} has rows as a whole and no plain partition rows: what lies between its partitions is not known"
    ]


def _content(rows: list[ProfileRow], whole: Mapping[int, Option]) -> tuple[object, ...]:
    """What decides the options: stages of one shape share them."""
    told = [
        (
            row.partition,
            row.nanobatches,
            row.execution,
            row.comm_sms,
            row.comm_launch,
            row.sm_clock_mhz,
            row.count,
            row.time_s,
            row.energy_j,
            row.invalid is None,
        )
        for row in rows
    ]
    return tuple(sorted(told, key=repr)), tuple(sorted(whole.items()))


def _check_missing(missing: list[str], composition: Composition) -> None:
    if missing and not composition.allow_missing:
        more = f"; and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ProfileError(f"{missing[0]}{more}: profile them, or plan without with --allow-missing-clocks")
