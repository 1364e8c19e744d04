"""How many of an operation's options fit into a time, for many operations and times at once.

Times of options are put into cells of equal width, counted once; a look-up finds a time's cell, and then whether
the next option of that cell fits as well. The result is that of numpy's `searchsorted`, to the bit: cells never
fall where times rise, so an option of an earlier cell fits and one of a later cell does not.

Legend: n operations, F fronts, K options of the longest one, G cells of a front, W times of each operation.
"""

import numpy as np

from energyopt.planner.arrays import Floats, Ints

_MOST_CELLS = 512  # of a front: small tables stay in the cache
_ROOMY = 2  # cells for each least distance between options


class Fitting:
    """Look-up tables for operations with options that take `time_FK[front_of]`, rising; infinite where none is."""

    def __init__(self, time_FK: Floats, front_of: Ints) -> None:  # noqa: N803
        self.width = time_FK.shape[1] + 1
        first_s, last_s = time_FK[:, 0], np.where(np.isfinite(time_FK), time_FK, -np.inf).max(axis=1)
        cells = _cells_of(time_FK, last_s - first_s)
        fronts, present = np.arange(len(time_FK)), np.isfinite(time_FK)
        low: Floats = fronts.astype(np.float64) * (cells + 2)
        per_s = _ratio(np.full(len(first_s), float(cells)), last_s - first_s)
        scale: list[Floats] = [
            one[:, None] for one in (per_s, low + 1 - first_s * per_s, low, low + cells + 1)
        ]
        cell = _cells(np.minimum(time_FK, last_s[:, None]), *scale)
        count = np.bincount(cell[present], minlength=len(fronts) * (cells + 2)).reshape(len(fronts), -1)
        self._most_in_cell = int(count.max())
        self._begin = (np.cumsum(count, axis=1) - count + (fronts * self.width)[:, None]).ravel()
        nothing_more = np.full((len(fronts), 1), np.inf)
        self._next_s = np.concatenate((time_FK, nothing_more), axis=1).ravel()
        self.time_FK, self.front_of = time_FK, front_of
        self.offset = (front_of * self.width)[:, None]
        self._scale = [one[front_of] for one in scale]

    def places(self, room_s: Floats, ops: slice) -> Ints:
        """How many options of some operations take at most `room_s` [ops, W], + their `offset`."""
        per_s, shift, low, high = self._scale
        found: Ints = self._begin.take(_cells(room_s, per_s[ops], shift[ops], low[ops], high[ops]))
        for _ in range(self._most_in_cell):
            found += self._next_s.take(found) <= room_s
        return found


def _cells(time_s: Floats, per_s: Floats, shift: Floats, low: Floats, high: Floats) -> Ints:
    """The cells of times, numbered from `low` to `high` in each row: they never fall where times rise."""
    where = time_s * per_s
    where += shift
    np.maximum(where, low, out=where)
    np.minimum(where, high, out=where)
    return where.astype(np.int64)


def _cells_of(time_FK: Floats, span_s: Floats) -> int:  # noqa: N803
    """So many that no two options of a front share one, if that is not too many."""
    with np.errstate(invalid="ignore"):
        gaps_s = np.diff(time_FK, axis=1)
    gap_s = np.where(np.isfinite(gaps_s) & (gaps_s > 0), gaps_s, np.inf).min(axis=1, initial=np.inf)
    return int(np.ceil(_ROOMY * _ratio(span_s, gap_s)).clip(1, _MOST_CELLS).max(initial=1))


def _ratio(one: Floats, other: Floats) -> Floats:
    """Their ratio, 0 where the other is 0."""
    return np.where(other > 0, one / np.where(other > 0, other, 1.0), 0.0)
