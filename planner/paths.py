"""Longest paths through the dependency graph."""

from functools import cached_property

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.graph import Graph
from energyopt.planner.levels import Levels, levels_of


class Paths:
    """Longest paths of one graph for given durations."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.order: list[int] = graph.order.tolist()
        self.predecessors = graph.predecessors

    def earliest_finish_s(self, time_s: Floats) -> Floats:
        """When each operation ends if none waits longer than it must, [n]."""
        durations = time_s.tolist()
        finish = [0.0] * len(durations)
        for op in self.order:
            start = 0.0
            for before, lag_s in self.predecessors[op]:
                ready = finish[before] + lag_s
                start = max(start, ready)
            finish[op] = start + durations[op]
        return np.array(finish)

    def makespan_s(self, time_s: Floats) -> float:
        """The longest path: the time of an iteration without its fixed part."""
        return float(self.earliest_finish_s(time_s).max())

    @cached_property
    def levels(self) -> Levels:
        """What can be looked at together; made at the first use."""
        return levels_of(self._graph)

    def finishes_s(self, time_s: Floats) -> Floats:
        """When each operation ends if none waits longer than it must, for columns of durations; [n, W] each."""
        return self._by_op(self.levels.finish_s(time_s[self._graph.order]))

    def latest_finishes_s(self, time_s: Floats, deadline_s: Floats) -> Floats:
        """When each operation must end, for columns of durations [n, W] and deadlines [W]; [n, W]."""
        return self._by_op(self.levels.latest_finish_s(time_s[self._graph.order], deadline_s))

    def makespans_s(self, time_s: Floats) -> Floats:
        """The longest path for each column of durations [n, W], [W]."""
        return np.asarray(self.finishes_s(time_s).max(axis=0))

    def _by_op(self, by_place: Floats) -> Floats:
        """Values [n, W] in topological order, as in `Schedule.ops`."""
        found = np.empty_like(by_place)
        found[self._graph.order] = by_place
        return found
