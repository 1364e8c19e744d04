"""The segment form of the relaxed problem as arrays.

    min  sum_i sum_k slope_ik d_ik  (+ static power x_end)
    s.t. x_j - x_i - sum_k d_ik >= tmin_i + lag_ij   for each dependency i -> j
         x_end - x_i - sum_k d_ik >= tmin_i           for each operation that nothing waits for
         0 <= d_ik <= width_ik,  x >= 0,  x_end <= T

Columns: n starts x, then x_end, then the segment lengths d of operation 0, 1, ... Slopes rise with k on a convex
hull, so an optimal solution fills segments in order. Rows: the m dependencies, then the operations that nothing
waits for. Times are divided by `time_scale_s` and energies by `energy_scale_j`, so that the solver's tolerances
mean the same for every profile; the quotients are rounded to 12 digits, so that a profile in other units gives the
same arrays to the last bit in all but freak cases.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from energyopt.planner.arrays import Floats
from energyopt.planner.problem import Front, Problem

_DIGITS = 12


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentArrays:
    """The linear program; the matrix is stored by rows (`start`, `index`, `value`)."""

    cost: Floats
    upper: Floats
    row_lower: Floats
    start: NDArray[np.int32]
    index: NDArray[np.int32]
    value: Floats
    first_segment: NDArray[np.int64]  # [n + 1] column of each operation's first segment
    sinks: NDArray[np.int64]  # operations that nothing waits for
    time_scale_s: float
    energy_scale_j: float
    base_effective_j: float  # effective energy with every operation at its fastest


def build_segments(problem: Problem) -> SegmentArrays:
    """Write the relaxed problem down as arrays, in time linear in operations, edges and segments."""
    n = problem.n_ops
    counts = np.array([len(front.hull) - 1 for front in problem.fronts], dtype=np.int64)[problem.front_of]
    first_segment = n + 1 + np.concatenate(([0], np.cumsum(counts)))
    sinks = np.setdiff1d(np.arange(n), problem.graph.tail)
    time_scale_s = problem.paths.makespan_s(problem.fastest_s)
    base_j = float(sum(front.effective_j[0] for front in _front_of_each(problem)))
    range_j = float(sum(front.effective_j[0] - front.effective_j[-1] for front in _front_of_each(problem)))
    energy_scale_j = max(range_j, problem.static_power_w * time_scale_s) or 1.0
    rows = _rows(problem, first_segment, counts, sinks)
    lags = np.concatenate((problem.graph.lag_s, np.zeros(len(sinks))))
    return SegmentArrays(
        cost=np.concatenate((np.zeros(n + 1), rounded(_slopes(problem) * time_scale_s / energy_scale_j))),
        upper=np.concatenate((np.full(n + 1, np.inf), rounded(_widths(problem) / time_scale_s))),
        row_lower=rounded((problem.fastest_s[rows.tail] + lags) / time_scale_s),
        start=rows.start.astype(np.int32),
        index=rows.index.astype(np.int32),
        value=rows.value,
        first_segment=first_segment,
        sinks=sinks,
        time_scale_s=time_scale_s,
        energy_scale_j=energy_scale_j,
        base_effective_j=base_j,
    )


def durations_s(problem: Problem, arrays: SegmentArrays, columns: Floats) -> Floats:
    """The operations' durations that a solution's columns stand for, [n]."""
    filled = np.concatenate(([0.0], np.cumsum(columns[problem.n_ops + 1 :])))
    first = arrays.first_segment - (problem.n_ops + 1)
    extra = filled[first[1:]] - filled[first[:-1]]
    longest = np.array([front.time_s[-1] for front in problem.fronts])[problem.front_of]
    return np.clip(problem.fastest_s + extra * arrays.time_scale_s, problem.fastest_s, longest)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    tail: NDArray[np.int64]
    start: NDArray[np.int64]
    index: NDArray[np.int64]
    value: Floats


def _rows(
    problem: Problem, first_segment: NDArray[np.int64], counts: NDArray[np.int64], sinks: NDArray[np.int64]
) -> _Rows:
    """Each row: +1 on the head's start, -1 on the tail's start and on the tail's segments."""
    tail = np.concatenate((problem.graph.tail.astype(np.int64), sinks))
    head = np.concatenate((problem.graph.head.astype(np.int64), np.full(len(sinks), problem.n_ops)))
    lengths = 2 + counts[tail]
    start = np.concatenate(([0], np.cumsum(lengths)))
    index = np.empty(start[-1], dtype=np.int64)
    value = np.full(start[-1], -1.0)
    index[start[:-1]], value[start[:-1]] = head, 1.0
    index[start[:-1] + 1] = tail
    within = np.arange(start[-1]) - np.repeat(start[:-1], lengths)
    segment = within >= 2
    index[segment] = (np.repeat(first_segment[tail], lengths) + within - 2)[segment]
    return _Rows(tail=tail, start=start, index=index, value=value)


def _front_of_each(problem: Problem) -> list[Front]:
    return [problem.fronts[index] for index in problem.front_of]


def _slopes(problem: Problem) -> Floats:
    return np.concatenate([front.segment_slope_w for front in _front_of_each(problem)])


def _widths(problem: Problem) -> Floats:
    return np.concatenate([front.segment_width_s for front in _front_of_each(problem)])


def rounded(values: Floats) -> Floats:
    """Values with 12 significant digits."""
    with np.errstate(divide="ignore"):
        exponent = np.where(values == 0, 0, np.ceil(np.log10(np.abs(values))))
    scale = 10.0 ** (_DIGITS - exponent)
    return np.asarray(np.round(values * scale) / scale)
