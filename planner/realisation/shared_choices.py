"""Blocks of consecutive operations of a stage that share what is chosen for them, laid out for sweeps.

All fronts of a block's operations have the same options in the same order, so that one choice says what each of
them takes. In a sweep the block's operation that comes first chooses, and what fits is decided by the time of the
whole block: the others' times in the plan that windows come from are added to its own window.

Blocks of one kind have the same fronts one after another.

Legend: n operations at their places in the sweeper's order, W plans (columns).
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Choices, Flags, Floats, Ints


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


class SharedChoices:
    """Who shares a choice with whom.

    kind_of: of the block of each operation, [n]. first, last: who chooses in forward and in backward sweeps.
    """

    def __init__(self, block_of: Ints, kind_of: Ints, order: Ints) -> None:
        """block_of: as in `Schedule.ops`, from 0 on, [n]; kind_of: of each block; order: the sweeper's, [n]."""
        n = len(order)
        self._place = np.empty(n, dtype=np.int64)
        self._place[order] = np.arange(n)
        self._by_op, self._block_of = block_of, block_of[order]
        self._begins = np.flatnonzero(np.diff(block_of, prepend=-1))
        self._kinds = kind_of
        self.kind_of: Ints = kind_of[self._block_of]
        ends = np.append(self._begins[1:], n) - 1
        self.first, self.last = (self._leaders(self._place[at]) for at in (self._begins, ends))

    def beside_s(self, time_s: Floats) -> Floats:
        """The times of the other operations of each operation's block, for durations [n, W]."""
        total_s = np.add.reduceat(time_s[self._place], self._begins, axis=0)
        return np.asarray(total_s[self._block_of] - time_s)

    def members(self, blocks: Ints) -> Ints:
        """The places of the operations of blocks of one kind, as they run, [operations, blocks]."""
        begins = self._begins[blocks]
        size = int(np.count_nonzero(self._by_op == blocks[0]))
        return np.asarray(self._place[begins + np.arange(size)[:, None]])

    def of_kinds(self, blocks: Ints) -> list[Ints]:
        """Positions in a list of blocks, those of each kind together."""
        kinds = self._kinds[blocks]
        return [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]

    def examples(self) -> Ints:
        """One block of each kind, in order of kinds."""
        return np.asarray(np.unique(self._kinds, return_index=True)[1])

    def alike(self, group_of: Ints) -> tuple[Ints, Ints]:
        """Sorts of blocks with operations of the same groups [n]: one block of each, and each operation's, [n].

        What blocks consist of is told apart by sums of random numbers, one for each group, times one for each place
        in a block.
        """
        random = np.random.default_rng(0)
        by_op = group_of[self._place]
        within = np.arange(len(by_op)) - self._begins[self._by_op]
        code = random.integers(0, 2**63, int(by_op.max()) + 1, dtype=np.uint64)
        factor = 2 * random.integers(0, 2**62, int(within.max()) + 1, dtype=np.uint64) + np.uint64(1)
        looks = np.add.reduceat(code[by_op] * factor[within], self._begins)
        looks += self._kinds.astype(np.uint64)
        _, first, sort_of = np.unique(looks, return_index=True, return_inverse=True)
        return first, sort_of.ravel()[self._block_of]

    def _leaders(self, place_of_block: Ints) -> Leaders:
        place = place_of_block[self._block_of]
        return Leaders(place=place, follows=place != np.arange(len(place)))
