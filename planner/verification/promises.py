"""What an iteration should cost: by the plan's own prediction, or by a profile for what the plan does."""

from dataclasses import dataclass

from energyopt.planner.verification.prediction import UnpricedError, predict
from energyopt.planner.verification.runs import Run
from energyopt.schemas.errors import NotComparableError
from energyopt.schemas.ops import Schedule
from energyopt.schemas.plan import Alternative, Plan, Prediction
from energyopt.schemas.planned_ops import PlannedOp
from energyopt.schemas.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What an iteration of one alternative should cost.

    energy_j: of the whole pipeline on `gpus` GPUs; stage_energy_j: of one GPU of each stage; unmeasured: operations
        whose clock has no row in the profile (between rows, beyond them). unpriced: why the profile does not tell;
        time and energy are then None.
    """

    time_s: float | None
    energy_j: float | None
    gpus: int
    stage_energy_j: tuple[float, ...] | None = None
    unmeasured: tuple[int, int] = (0, 0)
    unpriced: str | None = None

    def covered_j(self, run: Run) -> float | None:
        """The energy of the GPUs that were read; None where the promise cannot be split among them."""
        if self.stage_energy_j is not None:
            covered = zip(self.stage_energy_j, run.boards, strict=True)
            return sum(energy_j * boards for energy_j, boards in covered) or None
        if self.energy_j is None or not run.gpus or len(set(run.boards)) > 1:
            return None
        return self.energy_j * run.gpus / self.gpus


def promises(plan: Plan, run: Run, profile: Profile | None, schedule: Schedule | None) -> dict[int, Promise]:
    """Of the plan and its alternatives, by their numbers; only of those that ran."""
    ran = set(run.alternative.tolist())
    if profile is None and plan.predicted is None:
        raise NotComparableError("the plan predicts nothing to verify; give a profile with --profile")
    found = {}
    every: tuple[Plan | Alternative, ...] = (plan, *plan.alternatives)
    for number, one in enumerate(every):
        if number not in ran:
            continue
        if profile is None:
            assert one.predicted is not None
            found[number] = _promised(one.predicted, plan.gpus)
        else:
            assert schedule is not None
            found[number] = _profiled(one.stages, plan, schedule, profile)
    return found


def _promised(one: Prediction, gpus: int) -> Promise:
    return Promise(
        time_s=one.iteration_time_s, energy_j=one.energy_j, gpus=gpus, stage_energy_j=one.stage_energy_j
    )


def _profiled(
    stages: tuple[tuple[PlannedOp, ...], ...], plan: Plan, schedule: Schedule, profile: Profile
) -> Promise:
    try:
        found = predict(stages, plan.pipeline, schedule, profile)
    except UnpricedError as error:
        return Promise(time_s=None, energy_j=None, gpus=plan.pipeline.stages, unpriced=str(error))
    return Promise(
        time_s=found.iteration_time_s,
        energy_j=sum(found.stage_energy_j),
        gpus=plan.pipeline.stages,
        stage_energy_j=found.stage_energy_j,
        unmeasured=(found.between, found.beyond),
    )
