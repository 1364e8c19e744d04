"""What a plan saves: measured against a baseline run, or else only predicted."""

from energyopt.planner.verification.records import Saving
from energyopt.planner.verification.runs import Run
from energyopt.planner.verification.statistics import Interval, estimate, ratio
from energyopt.schemas.plan import Plan


def measured_saving(run: Run, baseline: Run) -> tuple[Saving, tuple[str, ...]]:
    """The plan's iterations against all of a baseline's, stalls included on both sides; and what to know of it.

    Energies are compared over the same number of GPUs on every stage, or not at all.
    """
    new = run.of(0)
    time = (estimate(run.time_s[new]), estimate(baseline.time_s))
    assert time[0] is not None and time[1] is not None
    energy = (estimate(run.energy_j[new]), estimate(baseline.energy_j))
    notes = []
    same = run.boards == baseline.boards
    if not same:
        notes.append(
            f"no energy saving: the run's energies cover {run.boards} GPUs of the stages, the baseline's "
            f"{baseline.boards}"
        )
    if len(baseline.observers) < baseline.metadata.world_size:
        notes.append(
            "the baseline run set clocks itself: the saving is against that, not against default clocks"
        )
    found = ratio(energy[0], energy[1]) if same and energy[0] is not None and energy[1] is not None else None
    return Saving(
        measured=True,
        gpus=run.gpus,
        time=_less_one(ratio(time[0], time[1])),
        energy=None if found is None else _less_one(found),
        iterations=(time[0].iterations, time[1].iterations),
        baseline_time_s=time[1].mean,
        baseline_energy_j=None if energy[1] is None else energy[1].mean,
    ), tuple(notes)


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


def _less_one(one: Interval) -> Interval:
    return Interval(
        value=one.value - 1,
        low=None if one.low is None else one.low - 1,
        high=None if one.high is None else one.high - 1,
    )
