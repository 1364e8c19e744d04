"""The relaxed problem of a long pipeline, at a size that does not grow with its microbatches.

The rows of the segment form (`segments`) are added up over each class of dependencies, and their columns over each
class of operations: the middle of the iteration keeps one duration for each series, and of its start times only the
sum. Adding rows up relaxes the problem, so that its value is a lower bound still. What makes it a certified one:
its dual prices, handed out evenly among a class's dependencies, are conserved at every single operation, and hence
are prices of the whole problem, for which `certificate` proves the same value.

That sharing costs next to nothing is a matter of experience (benchmarks/NOTES.md), and shows in the gaps.

    min  sum_c w_c sum_k slope_ck d_ck
    s.t. sum over the class's dependencies i -> j of  (x_j - x_i - t_i - lag_ij)  >=  0,  divided by their number
         x_end - x_i - t_i >= 0  for each operation that nothing waits for
         t_c = tmin_c + sum_k d_ck,  0 <= d_ck <= width_ck,  x >= 0,  x_end <= T

Legend: n operations and C classes of them, w_c operations of a class; m dependencies and E classes of them; L
operations that nothing waits for. Columns: the C mean starts x, x_end, the segments d of class 0, 1, ...
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.formulations.highs import EndSolver, Solution, row_model
from energyopt.planner.formulations.incidence import base_effective_j
from energyopt.planner.formulations.interface import Relaxed
from energyopt.planner.formulations.rows import Entries
from energyopt.planner.formulations.segments import rounded
from energyopt.planner.problem import Problem
from energyopt.planner.repeats import Repeats


@dataclass(frozen=True, kw_only=True, eq=False)
class AggregatedArrays:
    """The linear program, scaled as in `segments`."""

    cost: Floats
    upper: Floats
    row_lower: Floats
    rows: Entries  # of E + L rows, one for each place, sorted
    first_segment: Ints  # [C + 1] among the segments
    fastest_s: Floats  # [C]
    longest_s: Floats  # [C]
    sinks: Ints  # [L]
    base_effective_j: float  # effective energy with every operation at its fastest
    time_scale_s: float
    energy_scale_j: float


def build_aggregated(problem: Problem, repeats: Repeats) -> AggregatedArrays:
    """Write the aggregated problem down as arrays, in time linear in operations and dependencies."""
    fronts = [problem.fronts[front] for front in problem.front_of[repeats.representative].tolist()]
    counts = np.array([len(front.hull) - 1 for front in fronts], dtype=np.int64)
    sinks = np.setdiff1d(np.arange(problem.n_ops), problem.graph.tail)
    starts, durations = _rows(problem, repeats, sinks)
    fastest_s = np.array([front.time_s[0] for front in fronts])
    time_scale_s = problem.paths.makespan_s(problem.fastest_s)
    energy_scale_j = _energy_scale_j(problem, time_scale_s)
    lag_s = np.append(_mean_of_class(problem.graph.lag_s, repeats), np.zeros(len(sinks)))
    slopes = [front.segment_slope_w * count for front, count in zip(fronts, repeats.ops, strict=True)]
    widths = [front.segment_width_s for front in fronts]
    first_segment = np.concatenate(([0], np.cumsum(counts)))
    ends = np.arange(len(lag_s) - len(sinks), len(lag_s))
    end = Entries(row=ends, column=np.full(len(sinks), len(fronts)), value=np.ones(len(sinks)))
    least_s = np.bincount(durations.row, durations.value * fastest_s[durations.column], len(lag_s)) + lag_s
    segments = _of_segments(durations, counts, len(fronts) + 1 + first_segment)
    free = np.zeros(len(fronts) + 1)
    return AggregatedArrays(
        cost=np.concatenate((free, rounded(np.concatenate(slopes) * time_scale_s / energy_scale_j))),
        upper=np.concatenate((free + np.inf, rounded(np.concatenate(widths) / time_scale_s))),
        row_lower=rounded(least_s / time_scale_s),
        rows=(starts + end + segments.times(-1.0)).summed(),
        first_segment=first_segment,
        fastest_s=fastest_s,
        longest_s=np.array([front.time_s[-1] for front in fronts]),
        sinks=sinks,
        base_effective_j=base_effective_j(problem),
        time_scale_s=time_scale_s,
        energy_scale_j=energy_scale_j,
    )


def _rows(problem: Problem, repeats: Repeats, sinks: Ints) -> tuple[Entries, Entries]:
    """The coefficients of the classes' mean starts, in E + L rows and C columns, and of their durations."""
    graph, of, row = problem.graph, repeats.op_class, repeats.edge_class
    share = 1.0 / repeats.edges[row]
    heads = Entries(row=row, column=of[graph.head], value=share)
    tails = Entries(row=row, column=of[graph.tail], value=share)
    last = Entries(
        row=len(repeats.edges) + np.arange(len(sinks)), column=of[sinks], value=np.ones(len(sinks))
    )
    durations = (tails + last).summed()
    return heads + durations.times(-1.0), durations


def _of_segments(durations: Entries, counts: Ints, first: Ints) -> Entries:
    """Coefficients of durations as those of the segments [C] that add up to them; first: their columns, [C + 1]."""
    often = counts[durations.column]
    within = np.arange(often.sum()) - np.repeat(np.cumsum(often) - often, often)
    return Entries(
        row=np.repeat(durations.row, often),
        column=np.repeat(first[durations.column], often) + within,
        value=np.repeat(durations.value, often),
    )


def _mean_of_class(lag_s: Floats, repeats: Repeats) -> Floats:
    return np.asarray(np.bincount(repeats.edge_class, lag_s, len(repeats.edges)) / repeats.edges)


def _energy_scale_j(problem: Problem, time_scale_s: float) -> float:
    """What options can save at most, or what waiting costs."""
    range_j = np.array([front.effective_j[0] - front.effective_j[-1] for front in problem.fronts])
    return max(float(range_j[problem.front_of].sum()), problem.static_power_w * time_scale_s) or 1.0


class AggregatedRelaxedSolver:
    """Solves the aggregated problem for one deadline after another; single-threaded, hence repeatable."""

    def __init__(self, problem: Problem, repeats: Repeats, arrays: AggregatedArrays | None = None) -> None:
        """arrays: the same problem, if it was written down before."""
        self._problem, self._repeats = problem, repeats
        self._arrays = arrays = arrays or build_aggregated(problem, repeats)
        rows = arrays.rows
        self._solver = EndSolver(
            row_model(
                arrays.cost,
                arrays.upper,
                arrays.row_lower,
                rows.starts(len(arrays.row_lower)).astype(np.int32),
                rows.column.astype(np.int32),
                rows.value,
            ),
            end=len(repeats.ops),
            time_scale_s=arrays.time_scale_s,
            energy_scale_j=arrays.energy_scale_j,
        )

    def twin(self) -> "AggregatedRelaxedSolver":
        """Another solver of the same problem, for another thread."""
        return AggregatedRelaxedSolver(self._problem, self._repeats, self._arrays)

    def solve(self, deadline_s: float) -> Relaxed:
        """Least effective energy with every operation finished by `deadline_s`."""
        return self._relaxed(self._solver.solve(deadline_s))

    def solve_free(self) -> Relaxed:
        """Least total energy, effective plus static, at whatever makespan that takes."""
        return self._relaxed(self._solver.solve_free(self._problem.static_power_w))

    def _relaxed(self, solution: Solution) -> Relaxed:
        """What the solution says of the whole problem: every member of a class has its duration or price."""
        arrays, repeats = self._arrays, self._repeats
        segments = solution.columns[len(repeats.ops) + 1 :]
        edges = len(repeats.edges)
        sink_flow_w = np.zeros(self._problem.n_ops)
        sink_flow_w[arrays.sinks] = solution.row_price_w[edges:]
        saved_j = float(arrays.cost[len(repeats.ops) + 1 :] @ segments) * arrays.energy_scale_j
        return Relaxed(
            duration_s=self._durations_s(segments)[repeats.op_class],
            edge_flow_w=(solution.row_price_w[:edges] / repeats.edges)[repeats.edge_class],
            sink_flow_w=sink_flow_w,
            makespan_s=solution.end_s,
            effective_j=arrays.base_effective_j + saved_j,
        )

    def _durations_s(self, segments: Floats) -> Floats:
        """The duration of each class, [C]."""
        filled = np.concatenate(([0.0], np.cumsum(segments)))
        first, arrays = self._arrays.first_segment, self._arrays
        extra_s = (filled[first[1:]] - filled[first[:-1]]) * arrays.time_scale_s
        return np.asarray(np.minimum(arrays.fastest_s + extra_s, arrays.longest_s))
