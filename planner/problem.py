"""The planning problem that every formulation and the realisation share.

Legend for array shapes: n operations, m edges, F fronts (one per stage, chunk and kind), K options of a front.
Times are in seconds, energies in joules of one GPU per stage; effective energy is energy - wait power x time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from energyopt.planner.arrays import Floats
from energyopt.planner.graph import Graph
from energyopt.planner.hulls import lower_hull
from energyopt.planner.options import OptionTable, pareto_front
from energyopt.planner.paths import Paths
from energyopt.schemas.ops import OpKey, OpKind, Schedule
from energyopt.schemas.options import Option


@dataclass(frozen=True, kw_only=True, eq=False)
class Front:
    """The Pareto front of one key, fastest option first, times rising and effective energies falling."""

    options: tuple[Option, ...]
    time_s: Floats  # [K]
    effective_j: Floats  # [K]
    hull: NDArray[np.int64]  # indices of the lower convex hull's vertices

    @cached_property
    def segment_width_s(self) -> Floats:
        """Lengths of the hull's segments."""
        return np.diff(self.time_s[self.hull])

    @cached_property
    def segment_slope_w(self) -> Floats:
        """Slopes of the hull's segments, negative and rising."""
        return np.diff(self.effective_j[self.hull]) / self.segment_width_s


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Which option should each operation take?

    `measured` holds every measured option of each front's key, before any pruning, for the bound's certificate.
    `way` is the number of nanobatches that plans keep to, where operations know several; bounds are over all.
    """

    schedule: Schedule
    graph: Graph
    fronts: tuple[Front, ...]
    front_of: NDArray[np.int32]  # [n]
    measured: tuple[tuple[Option, ...], ...]  # per front
    wait_power_w: float
    fixed_time_s: float
    way: int | None = None

    def runs(self, front: int) -> list[int]:
        """The places among a front's measured options of those that the plans' way allows."""
        return _in_way(self.measured[front], self.way)

    def options_in(self, front: int, way: int) -> tuple[Option, ...]:
        """A front's measured options of one way; all of them where it does not know that way."""
        options = self.measured[front]
        return tuple(options[place] for place in _in_way(options, way))

    @cached_property
    def ways(self) -> tuple[int, ...]:
        """The numbers of nanobatches that any operation knows."""
        return tuple(sorted({one.nanobatches for options in self.measured for one in options}))

    @cached_property
    def unit_of(self) -> NDArray[np.int64]:
        """What has to keep to one way together: all that is done to a microbatch of one chunk of a stage, [n].

        A call that runs a forward and another microbatch's backward stands for itself.
        """
        units: dict[tuple[int | OpKind, ...], int] = {}
        names = [
            (index, op.kind) if op.kind is OpKind.FORWARD_BACKWARD else (op.stage, op.chunk, op.microbatch)
            for index, op in enumerate(self.schedule.ops)
        ]
        return np.array([units.setdefault(name, len(units)) for name in names], dtype=np.int64)

    @property
    def n_ops(self) -> int:
        """The number of operations."""
        return len(self.front_of)

    @property
    def static_power_w(self) -> float:
        """Wait power of one GPU on every stage."""
        return self.wait_power_w * self.schedule.stages

    @cached_property
    def paths(self) -> Paths:
        """Longest paths through the graph."""
        return Paths(self.graph)

    @cached_property
    def fastest_s(self) -> Floats:
        """The shortest duration of each operation, [n]."""
        return np.array([front.time_s[0] for front in self.fronts])[self.front_of]


def build_problem(
    schedule: Schedule,
    graph: Graph,
    table: OptionTable,
    wait_power_w: float,
    fixed_time_s: float,
    offered: OptionTable | None = None,
    way: int | None = None,
) -> Problem:
    """Join a schedule's dependencies with the options of its operations.

    offered: those of `table` that plans choose from, in one `way`; all of them if not given.
    """
    keys: list[OpKey] = sorted(table)
    choices = table if offered is None else offered
    index = {key: number for number, key in enumerate(keys)}
    return Problem(
        schedule=schedule,
        graph=graph,
        fronts=tuple(_front(pareto_front(choices[key], wait_power_w), wait_power_w) for key in keys),
        front_of=np.array([index[op.key] for op in schedule.ops], dtype=np.int32),
        measured=tuple(table[key] for key in keys),
        wait_power_w=wait_power_w,
        fixed_time_s=fixed_time_s,
        way=way,
    )


def _in_way(options: Sequence[Option], way: int | None) -> list[int]:
    own = [place for place, one in enumerate(options) if one.nanobatches == way]
    return own or list(range(len(options)))


def _front(options: tuple[Option, ...], wait_power_w: float) -> Front:
    time_s = np.array([option.time_s for option in options])
    effective_j = np.array([option.energy_j - wait_power_w * option.time_s for option in options])
    hull = lower_hull(time_s.tolist(), effective_j.tolist())
    return Front(options=options, time_s=time_s, effective_j=effective_j, hull=hull)
