"""The numbers of nanobatches that a schedule can run in: forwards and backwards cut their microbatch alike."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from energyopt.planner.options import OptionTable
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.options import Option

_Offered = Mapping[OpKey, Mapping[int, tuple[Option, ...]]]  # by number of nanobatches

_COUPLED = (OpKind.FORWARD, OpKind.BACKWARD, OpKind.BACKWARD_INPUT, OpKind.FORWARD_BACKWARD)


def by_ways(offered: _Offered) -> tuple[dict[int, OptionTable], list[str]]:
    """A table for every way in which all operations of a stage and chunk are cut alike, and the others in words.

    Operations that do not know a way run in their first one: so does a stage without layers.

    Raises:
        ProfileError: there is no such way.
    """
    counts = sorted({count for options in offered.values() for count in options})
    unlike = {count: text for count in counts if (text := _unlike(offered, count))}
    if len(unlike) == len(counts) and unlike:
        raise ProfileError(f"microbatches cannot be cut alike: {next(iter(unlike.values()))}; profile both")
    tables = {
        count: {key: options[_way_of(options, count)] for key, options in offered.items()}
        for count in counts
        if count not in unlike
    }
    return tables, list(unlike.values())


def in_ways(measured: OptionTable, offered: _Offered, kept: Mapping[int, OptionTable]) -> OptionTable:
    """What was measured, without the ways that are not kept: bounds are over what plans can choose.

    What runs whole stays in any case, as what runs without a plan.
    """
    found = {}
    for key, options in measured.items():
        used = {1, *(_way_of(offered[key], count) for count in kept)}
        found[key] = tuple(option for option in options if option.nanobatches in used)
    return found


def _way_of(options: Mapping[int, tuple[Option, ...]], count: int) -> int:
    return count if count in options else min(options)


def _unlike(offered: _Offered, count: int) -> str | None:
    """Two operations of one stage and chunk that this way would cut differently, in words."""
    for _, members in groupby(sorted(offered), key=lambda key: (key.stage, key.chunk)):
        coupled = [key for key in members if _is_coupled(key, offered[key])]
        found = _first_two(coupled, offered, count)
        if found:
            return f"{_named(count)}: " + " and the ".join(found)
    return None


def _is_coupled(key: OpKey, options: Mapping[int, object]) -> bool:
    """Gradients of weights may be computed whole, of whatever was kept; other kinds have no microbatch to cut."""
    return key.kind in _COUPLED or (key.kind is OpKind.BACKWARD_WEIGHT and max(options) > 1)


def _first_two(keys: Sequence[OpKey], offered: _Offered, count: int) -> tuple[str, str] | None:
    cuts = [(_way_of(offered[key], count), key) for key in keys]
    for cut, key in cuts:
        if cut != cuts[0][0]:
            return f"the {cuts[0][1]} would run in {cuts[0][0]}", f"{key} in {cut}"
    return None


def _named(count: int) -> str:
    return f"{count} nanobatches" if count > 1 else "whole microbatches"
