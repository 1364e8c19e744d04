"""Which clocks to measure at: all that a text names, snapped to what the board supports."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from energyopt.profiler.measurement.budget import thinned
from energyopt.schemas.errors import RequestError

DEFAULT_COUNT = 18
DEFAULT_LOWEST = 0.6
"""Without a choice: this many clocks, evenly from the highest down to this share of it."""

CURRENT = "current"
ALL = "all"
_RANGE = re.compile(r"(\d+):(\d+):(\d+)")
_LIST = re.compile(r"\d+(,\d+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Clocks, highest first; none where the clock is left as it is.

    snapped: clocks that were asked for and moved to the nearest step, with that step.
    """

    chosen_mhz: tuple[int, ...]
    snapped: tuple[tuple[int, int], ...] = ()


def choose_clocks(text: str | None, supported_mhz: Sequence[int]) -> Clocks:
    """The clocks that `--clocks` means.

    Args:
        text: `LOW:HIGH:STEP`, a list with commas, `all`, `current`, or None for the default.
        supported_mhz: what the board supports; empty where it does not say.

    Raises:
        RequestError: no such form, or the board's clocks are needed and not known.
    """
    if text == CURRENT:
        return Clocks(chosen_mhz=())
    supported = tuple(sorted(supported_mhz, reverse=True))
    if text is not None and text != ALL:
        return _snap(_asked(text), supported)
    if not supported:
        raise RequestError(
            "this board does not say which clocks it supports: name some, as --clocks 900:1410:30"
        )
    if text == ALL:
        return Clocks(chosen_mhz=supported)
    return Clocks(
        chosen_mhz=thinned([one for one in supported if one >= DEFAULT_LOWEST * supported[0]], DEFAULT_COUNT)
    )


def _asked(text: str) -> list[int]:
    if match := _RANGE.fullmatch(text):
        low, high, step = map(int, match.groups())
        if not 0 < low <= high or step == 0:
            raise RequestError(
                f"--clocks {text} is empty: give LOW:HIGH:STEP, the lower clock first, all above 0"
            )
        return list(range(high, low - 1, -step))
    if _LIST.fullmatch(text):
        asked = [int(one) for one in text.split(",")]
        if 0 not in asked:
            return asked
    raise RequestError(
        f"--clocks {text!a} is none of LOW:HIGH:STEP, a list such as 1410,1200, all and current"
    )


def _snap(asked: list[int], supported: tuple[int, ...]) -> Clocks:
    """Each to the nearest supported clock, of two as near to the lower; clocks beyond the range are refused."""
    if not supported:
        return Clocks(chosen_mhz=tuple(sorted(set(asked), reverse=True)))
    reach = max((a - b for a, b in pairwise(supported)), default=15)
    for one in asked:
        if not supported[-1] - reach <= one <= supported[0] + reach:
            raise RequestError(
                f"{one} MHz is no clock of this board, which supports {supported[-1]} to {supported[0]} MHz"
            )
    nearest = {one: min(supported, key=lambda clock: (abs(clock - one), clock)) for one in asked}
    return Clocks(
        chosen_mhz=tuple(sorted(set(nearest.values()), reverse=True)),
        snapped=tuple((one, clock) for one, clock in nearest.items() if one != clock),
    )
