"""What every operation costs at every clock, so that neighbours can be asked to share one.

Legend for array shapes: n operations as in `Schedule.ops`, C clocks, F fronts, S stages, W plans (columns). A plan
is a column of clock indices; effective energy is energy - wait power x time, of one GPU per stage.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from energyopt.planner.arrays import Choices, Flags, Floats, Ints
from energyopt.planner.problem import Problem
from energyopt.schemas.options import Option


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Variants:
    """Everything that one front can run at, K options by rising clock; `start` [C + 1] is where a clock's begin."""

    time_s: Floats  # [K]
    effective_j: Floats  # [K]
    start: Ints


@dataclass(frozen=True, kw_only=True, eq=False)  # no slots: arrays that follow from the others are cached
class ClockTable:
    """One option for every clock of every front; infinite where a front was not measured at a clock.

    Where partitions give a front several options at a clock, this is the one that is best at a given price of time;
    `variants.chosen_places` takes cheaper ones where there is time. Bounds are over all of them (`variants`).

    clocks_mhz: [C] rising. first: [S + 1] where each stage's operations begin. place_FC: where the option stands
    among those measured. variants: by front, those of other ways of cutting the microbatch among them; None where
    there are no more than the table shows.
    """

    problem: Problem
    clocks_mhz: Ints
    time_FC: Floats  # noqa: N815 - carries its shape
    effective_FC: Floats  # noqa: N815
    place_FC: Ints  # noqa: N815
    first: Ints
    variants: tuple[Variants | None, ...]

    @property
    def has_variants(self) -> bool:
        """Whether any clock has several options."""
        return any(one is not None for one in self.variants)

    @cached_property
    def time_nC(self) -> Floats:  # noqa: N802
        """Durations of every operation at every clock."""
        return np.asarray(self.time_FC[self.problem.front_of])

    @cached_property
    def effective_nC(self) -> Floats:  # noqa: N802
        """Effective energies of every operation at every clock."""
        return np.asarray(self.effective_FC[self.problem.front_of])

    @cached_property
    def microbatch(self) -> Ints:
        """The microbatch of every operation, [n]."""
        return np.array([op.microbatch for op in self.problem.schedule.ops], dtype=np.int64)

    @cached_property
    def stage_of(self) -> Ints:
        """The stage of every operation, [n]."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @cached_property
    def follows(self) -> Flags:
        """Whether each operation but the first follows the one before it on the same stage, [n - 1]."""
        return np.asarray(self.stage_of[1:] == self.stage_of[:-1])

    def alike(self, front: int, clock: int) -> list[int]:
        """The places of all options that a front may run at a clock (an index) in the plans' way."""
        options, wanted_mhz = self.problem.measured[front], int(self.clocks_mhz[clock])
        return [place for place in self.problem.runs(front) if options[place].sm_clock_mhz == wanted_mhz]

    def time_s(self, plans: Choices) -> Floats:
        """Durations under each plan, [n, W]."""
        return self.time_FC[self.problem.front_of[:, None], plans]

    def effective_j(self, plans: Choices) -> Floats:
        """Effective energy of each plan, [W]."""
        return np.asarray(self.effective_FC[self.problem.front_of[:, None], plans].sum(axis=0))

    def changes(self, plans: Choices) -> Flags:
        """Where an operation runs at another clock than the one before it on its stage, [n - 1, W]."""
        return np.asarray((plans[1:] != plans[:-1]) & self.follows[:, None])

    def switches(self, plans: Choices) -> Ints:
        """Clock changes of each plan in an iteration, summed over stages, [W]."""
        return np.asarray(self.changes(plans).sum(axis=0))

    def of_options(self, choices: Ints) -> Choices:
        """Choices of the fronts' options, [n, W], as clocks."""
        plans = np.empty(choices.shape, dtype=np.int16)
        for index, front in enumerate(self.problem.fronts):
            ops = self.problem.front_of == index
            clocks = np.array([option.sm_clock_mhz for option in front.options])
            plans[ops] = np.searchsorted(self.clocks_mhz, clocks)[choices[ops]]
        return plans


def clock_table(problem: Problem, hurry: bool = False) -> ClockTable:
    """Lay the measured options of a problem out by clock.

    hurry: where a clock has several, take the fastest and not the best if a second costs all stages' wait power.
    """
    clocks = sorted({option.sm_clock_mhz for options in problem.measured for option in options})
    column = {clock: index for index, clock in enumerate(clocks)}
    time_FC, effective_FC = np.full((2, len(problem.measured), len(clocks)), np.inf)
    place_FC = np.full(time_FC.shape, -1, dtype=np.int64)
    for front, options in enumerate(problem.measured):
        for place in problem.runs(front):
            option = options[place]
            at = front, column[option.sm_clock_mhz]
            time_s, effective_j = option.time_s, option.energy_j - problem.wait_power_w * option.time_s
            cost_j = effective_j + problem.static_power_w * time_s
            known_j = effective_FC[at] + problem.static_power_w * time_FC[at]
            if (
                (time_s, cost_j) < (time_FC[at], known_j)
                if hurry
                else (cost_j, time_s) < (known_j, time_FC[at])
            ):
                time_FC[at], effective_FC[at], place_FC[at] = time_s, effective_j, place
    lengths = [len(order) for order in problem.schedule.orders]
    return ClockTable(
        problem=problem,
        clocks_mhz=np.array(clocks, dtype=np.int64),
        time_FC=time_FC,
        effective_FC=effective_FC,
        place_FC=place_FC,
        first=np.concatenate(([0], np.cumsum(lengths))),
        variants=tuple(
            _variants(options, column, problem.wait_power_w, len(problem.runs(front)))
            for front, options in enumerate(problem.measured)
        ),
    )


def _variants(
    options: Sequence[Option], column: dict[int, int], wait_power_w: float, in_way: int
) -> Variants | None:
    """All options by clock; None where the plans' way has them all, one at each clock."""
    columns = [column[option.sm_clock_mhz] for option in options]
    if len(set(columns)) == len(columns) == in_way:
        return None
    ranked = [options[place] for place in np.argsort(columns, kind="stable").tolist()]
    time_s = np.array([option.time_s for option in ranked])
    return Variants(
        time_s=time_s,
        effective_j=np.array([option.energy_j for option in ranked]) - wait_power_w * time_s,
        start=np.searchsorted(np.sort(columns), np.arange(len(column) + 1)),
    )
