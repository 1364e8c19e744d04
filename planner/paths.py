"""Longest paths through the dependency graph."""

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.graph import Graph

Neighbours = list[list[tuple[int, float]]]  # per operation: (the other operation, lag in seconds)


class Paths:
    """Neighbour lists of a graph, and the longest paths for given durations."""

    def __init__(self, graph: Graph) -> None:
        self.order: list[int] = graph.order.tolist()
        self.predecessors: Neighbours = [[] for _ in self.order]
        self.successors: Neighbours = [[] for _ in self.order]
        edges = zip(graph.tail.tolist(), graph.head.tolist(), graph.lag_s.tolist(), strict=True)
        for tail, head, lag_s in edges:
            self.predecessors[head].append((tail, lag_s))
            self.successors[tail].append((head, lag_s))

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
