"""What an iteration takes beside its operations: T = longest path(operations, P2P time) + fixed time.

The longest path crosses between stages h times, so that T grows by h for each second of P2P time. Only runs whose
paths cross differently often tell P2P time from fixed time; where they do not, the P2P time stays what it was, and
the fixed time's interval holds all that the true P2P time may shift between the two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar  # type: ignore[import-untyped]

from energyopt.planner.arrays import Floats
from energyopt.planner.graph import build_graph
from energyopt.planner.paths import Paths
from energyopt.planner.verification.statistics import Estimate
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.intervals import student_quantile
from energyopt.schemas.ops import Schedule

_HALVINGS = 8
_SLACK = 0.02
_RESOLUTION = 1e-3  # of the search for the P2P time, as a share of the largest that there could be


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The P2P time that is kept where runs cannot tell it, s; half_s: half its 95 % interval, None if unknown."""

    p2p_time_s: float = 0.0
    half_s: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class TimeFit:
    """The fitted times in s, with half their 95 % intervals (None: too few runs for one).

    p2p_kept: why the P2P time was not fitted; None where it was. overlap: by how much the operations' longest path
        exceeds the iterations' time in the mean, as a share; the fixed time is then 0. predicted_s: [W] runs.
    """

    fixed_time_s: float
    fixed_half_s: float | None
    p2p_time_s: float
    p2p_half_s: float | None
    p2p_kept: str | None
    overlap: float
    predicted_s: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class _Problem:
    """W runs: paths without P2P time end after path_s(0), weights are of mean 1."""

    path_s: Callable[[float], Floats]
    measured_s: Floats
    weights: Floats

    def rest_s(self, p2p_s: float) -> float:
        """What is left in the mean beside operations and transfers."""
        return float(np.average(self.measured_s - self.path_s(p2p_s), weights=self.weights))

    def loss(self, p2p_s: float) -> float:
        """The weighted squares around the best fixed time."""
        off_s = self.measured_s - self.path_s(p2p_s) - max(self.rest_s(p2p_s), 0.0)
        return float(self.weights @ np.square(off_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Free:
    """Both times and half their intervals by least squares."""

    fixed_s: float
    fixed_half_s: float
    p2p_s: float
    p2p_half_s: float


def fit_iteration_time(
    schedule: Schedule,
    op_time_s: Sequence[Floats],
    times: Sequence[Estimate],
    known: Known,
    weights: Floats | None = None,
) -> TimeFit:
    """Fit both to W runs, each of which takes as long as the longest path among its replicas.

    op_time_s: of each run [G, n]; known: what to keep where it cannot be told; weights: [W], equal if not given.

    Raises:
        ProfileError: the operations alone take longer than the iterations.
    """
    measured_s = np.array([one.mean for one in times])
    unit = build_graph(schedule, 1.0)
    columns = np.vstack(op_time_s).T
    starts = np.cumsum([0, *(len(one) for one in op_time_s[:-1])])

    def path_s(p2p_s: float) -> Floats:
        ends_s = Paths(replace(unit, lag_s=unit.lag_s * p2p_s)).makespans_s(columns)
        return np.asarray(np.maximum.reduceat(ends_s, starts))

    _check_room(measured_s, path_s(0.0))
    weights = np.ones(len(times)) if weights is None else weights / weights.mean()
    problem = _Problem(path_s=path_s, measured_s=measured_s, weights=weights)
    kept, free = _why_not(schedule, len(times)), None
    if kept is None:
        free = _fit_both(problem, schedule.stages)
        kept = free if isinstance(free, str) else _not_above_0(free)
    if isinstance(free, _Free) and kept is None:
        return _fit(problem, free.p2p_s, free.fixed_half_s, free.p2p_half_s, None)
    assert kept is not None
    exact = replace(known, half_s=0.0) if schedule.stages == 1 else known
    half_s = _half_with_p2p_kept(problem, times, exact, free if isinstance(free, _Free) else None)
    return _fit(problem, known.p2p_time_s, half_s, known.half_s, kept)


def _check_room(measured_s: Floats, path_s: Floats) -> None:
    rest_s = measured_s - path_s
    if (rest_s < -_SLACK * measured_s).any():
        worst = int(np.argmin(rest_s / measured_s))
        raise ProfileError(
            f"the operations of run {worst + 1} alone take {path_s[worst]:.4f} s one after "
            f"another, its iterations {measured_s[worst]:.4f} s: the recorded times of operations include waiting"
        )


def _why_not(schedule: Schedule, runs: int) -> str | None:
    if schedule.stages == 1:
        return "one stage sends nothing"
    return (
        None
        if runs >= 4
        else f"{runs} runs cannot tell it from the fixed time; give 4 or more, of different plans"
    )


def _not_above_0(free: _Free) -> str | None:
    if free.p2p_s - free.p2p_half_s > 0:
        return None
    return f"its 95 % interval, {free.p2p_s:.2g} +- {free.p2p_half_s:.2g} s, includes 0"


def _fit_both(problem: _Problem, stages: int) -> _Free | str:
    """Both times by least squares, or why they cannot be told apart."""
    most_s = float((problem.measured_s - problem.path_s(0.0)).max()) / (2 * max(stages - 1, 1))
    if most_s <= 0:
        return "nothing is left for it beside the operations"
    tried = [0.0, *(most_s / 2**step for step in range(_HALVINGS, -1, -1))]
    best = int(np.argmin([problem.loss(one) for one in tried]))
    bounds = (tried[max(best - 1, 0)], tried[min(best + 1, len(tried) - 1)])
    options = {"xatol": _RESOLUTION * most_s}
    p2p_s = float(minimize_scalar(problem.loss, bounds=bounds, method="bounded", options=options).x)
    step_s = 1e-4 * most_s
    crossings = (problem.path_s(p2p_s + step_s) - problem.path_s(p2p_s)) / step_s
    halves = _half_widths(problem, crossings, p2p_s, most_s * _RESOLUTION)
    if halves is None:
        return "every run's longest path crosses between stages equally often, so the fixed time takes it in"
    return _Free(fixed_s=problem.rest_s(p2p_s), fixed_half_s=halves[0], p2p_s=p2p_s, p2p_half_s=halves[1])


def _half_widths(
    problem: _Problem, crossings: Floats, p2p_s: float, step_s: float
) -> tuple[float, float] | None:
    """Of fixed and P2P time, from the scatter around the fit; None where they are the same column.

    step_s: what the search does not resolve.
    """
    n = len(crossings)
    if np.ptp(crossings) < 0.5:
        return None
    design = np.column_stack([np.ones(n), crossings]) * np.sqrt(problem.weights)[:, None]
    variance = np.diag(np.linalg.inv(design.T @ design)) * problem.loss(p2p_s) / (n - 2)
    fixed, p2p = student_quantile(n - 2) * np.sqrt(variance)
    return float(fixed), max(float(p2p), 2 * step_s)


def _half_of_mean(problem: _Problem, times: Sequence[Estimate], p2p_s: float) -> float | None:
    """Of the fixed time, as if the P2P time were exact."""
    n = len(times)
    if n == 1:
        return times[0].half_width
    off_s = problem.measured_s - problem.path_s(p2p_s) - problem.rest_s(p2p_s)
    return float(student_quantile(n - 1) * np.sqrt(problem.weights @ np.square(off_s) / (n - 1) / n))


def _half_with_p2p_kept(
    problem: _Problem, times: Sequence[Estimate], known: Known, free: _Free | None
) -> float | None:
    """Of the fixed time, with what the true P2P time may shift.

    Where both could be fitted, the interval of that fit is contained; else the fixed times that go with the P2P
    times within the interval that is known, or without one with all from 0 to where nothing is left.
    """
    half_s = _half_of_mean(problem, times, known.p2p_time_s)
    if half_s is None:
        return None
    fixed_s = max(problem.rest_s(known.p2p_time_s), 0.0)
    if free is not None:
        ends_s = (free.fixed_s - free.fixed_half_s, free.fixed_s + free.fixed_half_s)
    elif known.half_s is not None:
        low_s = max(known.p2p_time_s - known.half_s, 0.0)
        high_s = known.p2p_time_s + known.half_s
        ends_s = (problem.rest_s(high_s) - half_s, problem.rest_s(low_s) + half_s)
    else:
        ends_s = (0.0, problem.rest_s(0.0) + half_s)
    return max(half_s, *(abs(end_s - fixed_s) for end_s in ends_s))


def _fit(
    problem: _Problem, p2p_s: float, fixed_half_s: float | None, p2p_half_s: float | None, kept: str | None
) -> TimeFit:
    rest_s = problem.rest_s(p2p_s)
    fixed_s = max(rest_s, 0.0)
    return TimeFit(
        fixed_time_s=fixed_s,
        fixed_half_s=fixed_half_s,
        p2p_time_s=p2p_s,
        p2p_half_s=p2p_half_s,
        p2p_kept=kept,
        overlap=max(-rest_s / float(problem.measured_s.mean()), 0.0),
        predicted_s=problem.path_s(p2p_s) + fixed_s,
    )
