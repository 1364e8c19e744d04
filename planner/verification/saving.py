"""What a plan saves: measured against baseline runs, or else only predicted.

Two runs of the very same job differ by more than the scatter of their iterations explains (other boards'
temperatures, neighbours). One baseline cannot show by how much. From two on it is known, and the plan's single run
is taken to differ from its like as the baselines do: the variance of its ratio to the mean of k of them is
s^2 (1 + 1 / k), with k - 1 degrees of freedom. The interval is never narrower than that from within the runs.
"""

import math
from collections.abc import Sequence

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.verification.records import Saving
from energyopt.planner.verification.runs import Run
from energyopt.planner.verification.statistics import Estimate, Interval, estimate, ratio
from energyopt.schemas.intervals import student_quantile
from energyopt.schemas.plan import Plan


def measured_saving(run: Run, baselines: Sequence[Run]) -> tuple[Saving, tuple[str, ...]]:
    """The plan's iterations against all of the baselines', stalls included on both sides; and what to know of it.

    Energies are compared over the same number of GPUs on every stage, or not at all.
    """
    new = run.of(0)
    time = ratio_to_runs(run.time_s[new], [one.time_s for one in baselines])
    assert time is not None
    notes = []
    uneven = [one.boards for one in baselines if one.boards != run.boards]
    energy = None if uneven else ratio_to_runs(run.energy_j[new], [one.energy_j for one in baselines])
    if uneven:
        notes.append(
            f"no energy saving: the run's energies cover {run.boards} GPUs of the stages, a baseline's "
            f"{uneven[0]}"
        )
    if any(len(one.observers) < one.metadata.world_size for one in baselines):
        notes.append(
            "the baseline run set clocks itself: the saving is against that, not against default clocks"
        )
    energies = _means([one.energy_j for one in baselines])
    return Saving(
        measured=True,
        gpus=run.gpus,
        baselines=len(baselines),
        time=_less_one(time),
        energy=None if energy is None else _less_one(energy),
        iterations=(int(new.sum()), sum(len(one.numbers) for one in baselines)),
        baseline_time_s=float(np.mean([one.mean for one in _means([one.time_s for one in baselines])])),
        baseline_energy_j=float(np.mean([one.mean for one in energies])) if energies else None,
    ), tuple(notes)


def ratio_to_runs(new: Floats, olds: Sequence[Floats]) -> Interval | None:
    """A run's mean over the mean of other runs' means, with its interval; None where one is not there or 0."""
    one, others = estimate(new), _means(olds)
    if one is None or len(others) < len(olds) or not all(other.mean > 0 for other in others):
        return None
    within = ratio(one, _joined(others))
    return within if len(others) < 2 else _wider(within, _between(within.value, others))


def predicted_saving(plan: Plan) -> Saving | None:
    """The plan's own prediction against every operation at its highest clock; None where it has none."""
    if plan.predicted is None or plan.max_clock is None:
        return None
    top = plan.max_clock
    return Saving(
        measured=False,
        gpus=plan.gpus,
        time=Interval(value=plan.predicted.iteration_time_s / top.iteration_time_s - 1),
        energy=Interval(value=plan.predicted.energy_j / top.energy_j - 1),
        baseline_time_s=top.iteration_time_s,
        baseline_energy_j=top.energy_j,
    )


def _means(series: Sequence[Floats]) -> list[Estimate]:
    return [found for one in series if (found := estimate(one)) is not None]


def _joined(runs: Sequence[Estimate]) -> Estimate:
    """The mean of runs' means by what is known from within them."""
    if len(runs) == 1:
        return runs[0]
    count = len(runs)
    mean = sum(one.mean for one in runs) / count
    iterations = sum(one.iterations for one in runs)
    spreads = [one.std**2 / one.effective for one in runs if one.std is not None and one.effective]
    if len(spreads) < count:
        return Estimate(mean=mean, iterations=iterations)
    effective = sum(one.effective or 0.0 for one in runs)
    std = math.sqrt(sum(spreads) / count**2 * effective)
    return Estimate(mean=mean, iterations=iterations, std=std, effective=effective)


def _between(value: float, runs: Sequence[Estimate]) -> float:
    """Half the interval of a ratio, from how the runs' means differ."""
    means = np.array([one.mean for one in runs])
    relative = float(means.std(ddof=1) / means.mean())
    return student_quantile(len(runs) - 1) * abs(value) * relative * math.sqrt(1 + 1 / len(runs))


def _wider(within: Interval, half: float) -> Interval:
    if within.low is not None:
        half = max(half, within.value - within.low)
    return Interval(value=within.value, low=within.value - half, high=within.value + half)


def _less_one(one: Interval) -> Interval:
    return Interval(
        value=one.value - 1,
        low=None if one.low is None else one.low - 1,
        high=None if one.high is None else one.high - 1,
    )
