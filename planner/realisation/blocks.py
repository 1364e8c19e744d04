"""Blocks of consecutive operations of a stage that share what is chosen for them, laid out for sweeps.

All fronts of a block's operations have the same options in the same order, so that one choice says what each of
them takes. In a sweep the block's operation that comes first chooses, and what fits is decided by the time of the
whole block: the others' times in the plan that windows come from are added to its own window.

Legend: n operations at their places in the sweeper's order, B operations of the longest block, W plans (columns).
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Choices, Flags, Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Blocks:
    """The operations of each operation's block, itself among them, in the order in which they run.

    members: their places, [B, n]; n where a block is shorter. block_of: [n], numbered from 0.
    """

    members: Ints
    block_of: Ints

    @property
    def leaders(self) -> tuple["Leaders", "Leaders"]:
        """Who chooses in forward and in backward sweeps."""
        n = self.members.shape[1]
        first, last = self.members[0], np.where(self.members < n, self.members, -1).max(axis=0)
        own = np.arange(n)
        return Leaders(place=first, follows=first != own), Leaders(place=last, follows=last != own)

    def beside_s(self, time_s: Floats) -> Floats:
        """The times of the other operations of each operation's block, for durations [n, W]."""
        padded_s = np.concatenate((time_s, np.zeros((1, time_s.shape[1]))))
        total_s = padded_s.take(self.members[0], axis=0)
        for row in self.members[1:]:
            total_s += padded_s.take(row, axis=0)
        return np.asarray(total_s - time_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Leaders:
    """The place of the operation that each one's choice is copied from, [n], and whether that is another one."""

    place: Ints
    follows: Flags

    def copy(self, chosen: Choices, choices: Choices, ops: slice) -> None:
        """Put the leaders' choices, from those made so far [n, W], into those for neighbouring operations."""
        follows = self.follows[ops]
        if follows.any():
            chosen[follows] = choices[self.place[ops][follows]]


def blocks_of(block_of: Ints, order: Ints) -> Blocks:
    """Lay out blocks that are numbered by operation as in `Schedule.ops`, [n]; order: the sweeper's."""
    n = len(order)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    first = np.flatnonzero(np.diff(block_of, prepend=-1))
    size = np.diff(np.append(first, n))
    numbers = np.arange(len(first))
    inner = first[:, None] + np.arange(int(size.max()))
    exists = np.arange(int(size.max())) < size[:, None]
    places = np.where(exists, place[np.minimum(inner, n - 1)], n)
    number_of = np.repeat(numbers, size)[order]
    return Blocks(members=places[number_of].T.copy(), block_of=number_of)
