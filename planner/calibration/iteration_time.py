"""What an iteration takes beside its operations: T = longest path(operations, P2P time) + fixed time.

The longest path crosses between stages h times, so that T grows by h for each second of P2P time. Only runs whose
paths cross differently often tell P2P time from fixed time; where they do not, the P2P time stays what it was.
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


@dataclass(frozen=True, kw_only=True, eq=False)
class TimeFit:
    """The fitted times in s, with half their 95 % intervals (None: too few runs for one).

    p2p_kept: why the P2P time was not fitted; None where it was.
    """

    fixed_time_s: float
    fixed_half_s: float | None
    p2p_time_s: float
    p2p_half_s: float | None
    p2p_kept: str | None
    predicted_s: Floats  # [W] runs


def fit_iteration_time(
    schedule: Schedule, op_time_s: Floats, times: Sequence[Estimate], p2p_time_s: float
) -> TimeFit:
    """Fit both to W runs.

    op_time_s: [n, W]; p2p_time_s: to keep where it cannot be told.

    Raises:
        ProfileError: the operations alone take longer than the iterations.
    """
    measured_s = np.array([one.mean for one in times])

    unit = build_graph(schedule, 1.0)

    def path_s(p2p_s: float) -> Floats:
        return Paths(replace(unit, lag_s=unit.lag_s * p2p_s)).makespans_s(op_time_s)

    rest_s = measured_s - path_s(0.0)
    if (rest_s < -_SLACK * measured_s).any():
        worst = int(np.argmin(rest_s / measured_s))
        raise ProfileError(
            f"the operations of run {worst + 1} alone take {measured_s[worst] - rest_s[worst]:.4f} s one after "
            f"another, its iterations {measured_s[worst]:.4f} s: the recorded times of operations include waiting"
        )
    kept = _why_not(schedule, len(times))
    if kept is None:
        fitted = _fit_both(path_s, measured_s, float(rest_s.max()) / (2 * max(schedule.stages - 1, 1)))
        if isinstance(fitted, TimeFit):
            return fitted
        kept = fitted
    return _fit_fixed(path_s(p2p_time_s), measured_s, times, p2p_time_s, kept)


def _why_not(schedule: Schedule, runs: int) -> str | None:
    if schedule.stages == 1:
        return "one stage sends nothing"
    return (
        None
        if runs >= 4
        else f"{runs} runs cannot tell it from the fixed time; give 4 or more, of different plans"
    )


def _fit_both(path_s: Callable[[float], Floats], measured_s: Floats, most_s: float) -> TimeFit | str:
    """Both times by least squares, or why they cannot be told apart."""

    def loss(p2p_s: float) -> float:
        rest_s = measured_s - path_s(p2p_s)
        return float(np.square(rest_s - max(float(rest_s.mean()), 0.0)).sum())

    if most_s <= 0:
        return "nothing is left for it beside the operations"
    tried = [0.0, *(most_s / 2**step for step in range(_HALVINGS, -1, -1))]
    best = int(np.argmin([loss(one) for one in tried]))
    bounds = (tried[max(best - 1, 0)], tried[min(best + 1, len(tried) - 1)])
    p2p_s = float(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-3 * most_s}).x)
    step_s = 1e-4 * most_s
    crossings = (path_s(p2p_s + step_s) - path_s(p2p_s)) / step_s
    halves = _half_widths(crossings, loss(p2p_s))
    if halves is None:
        return "every run's longest path crosses between stages equally often, so the fixed time takes it in"
    if p2p_s - halves[1] <= 0:
        return f"its 95 % interval, {p2p_s:.2g} +- {halves[1]:.2g} s, includes 0"
    base_s = path_s(p2p_s)
    fixed_s = max(float((measured_s - base_s).mean()), 0.0)
    return TimeFit(
        fixed_time_s=fixed_s,
        fixed_half_s=halves[0],
        p2p_time_s=p2p_s,
        p2p_half_s=halves[1],
        p2p_kept=None,
        predicted_s=base_s + fixed_s,
    )


def _half_widths(crossings: Floats, squares: float) -> tuple[float, float] | None:
    """Of fixed and P2P time, from the scatter around the fit; None where they are the same column."""
    n = len(crossings)
    if np.ptp(crossings) < 0.5:
        return None
    design = np.column_stack([np.ones(n), crossings])
    variance = np.diag(np.linalg.inv(design.T @ design)) * squares / (n - 2)
    fixed, p2p = student_quantile(n - 2) * np.sqrt(variance)
    return float(fixed), float(p2p)


def _fit_fixed(
    base_s: Floats, measured_s: Floats, times: Sequence[Estimate], p2p_time_s: float, kept: str
) -> TimeFit:
    rest_s = measured_s - base_s
    n = len(rest_s)
    fixed_s = max(float(rest_s.mean()), 0.0)
    half_s = (
        times[0].half_width if n == 1 else float(student_quantile(n - 1) * rest_s.std(ddof=1) / np.sqrt(n))
    )
    return TimeFit(
        fixed_time_s=fixed_s,
        fixed_half_s=half_s,
        p2p_time_s=p2p_time_s,
        p2p_half_s=None,
        p2p_kept=kept,
        predicted_s=base_s + fixed_s,
    )
