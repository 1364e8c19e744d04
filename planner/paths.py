"""Longest paths through the dependency graph."""

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.graph import Graph


class Paths:
    """Longest paths of one graph for given durations."""

    def __init__(self, graph: Graph) -> None:
        self.order: list[int] = graph.order.tolist()
        self.predecessors = graph.predecessors
        self.successors = graph.successors

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

    def makespans_s(self, time_s: Floats) -> Floats:
        """The longest path for each column of durations [n, W], [W]."""
        finish_s = np.empty_like(time_s)
        for op in self.order:
            start_s = np.zeros(time_s.shape[1])
            for before, lag_s in self.predecessors[op]:
                start_s = np.maximum(start_s, finish_s[before] + lag_s)
            finish_s[op] = start_s + time_s[op]
        return np.asarray(finish_s.max(axis=0))
