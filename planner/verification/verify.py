"""Verifying a plan: predicted beside measured, for the whole pipeline, each stage, and each kind of operation."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from energyopt.planner.arrays import Flags
from energyopt.planner.verification.judging import compare, doubt, not_judged
from energyopt.planner.verification.matching import check_baseline, check_plan, check_profile
from energyopt.planner.verification.notes import (
    clock_notes,
    profile_notes,
    section_notes,
    time_notes,
    worst_stage,
)
from energyopt.planner.verification.operations import chosen_ops, op_rows, work_rows
from energyopt.planner.verification.prediction import planned_times_s
from energyopt.planner.verification.promises import Promise, promises
from energyopt.planner.verification.records import Quantity, Saving, Section, StageRow, Verification
from energyopt.planner.verification.runs import WARM_UP, Recorded, Run, read_run
from energyopt.planner.verification.saving import measured_saving, predicted_saving
from energyopt.planner.verification.scope import run_notes, scope_lines
from energyopt.planner.verification.statistics import FEWEST_FOR_CORRELATION, estimate
from energyopt.schemas.errors import NotComparableError
from energyopt.schemas.ops import Schedule
from energyopt.schemas.plan import Plan
from energyopt.schemas.profile import Profile

MOST_STALLS = 0.1
"""The largest share of stalled iterations with which a prediction of the others says something of the run."""


def verify(
    plan: Plan,
    plan_file: Path,
    run: Recorded,
    *,
    baselines: Sequence[Recorded] = (),
    profile: Profile | None = None,
    schedule: Schedule | None = None,
    tolerance: float = 0.02,
    skip: int = WARM_UP,
    time_only: bool = False,
) -> Verification:
    """Compare a plan's prediction with a run of it.

    profile: where given, the prediction is recomputed from it for the plan's clocks and partitions (and needs
        `schedule`), and operations are compared with its rows; without, the plan's own prediction is judged.
    skip: how many recorded iterations at the start of each run are left out.
    time_only: the energy is shown and not judged.

    Raises:
        NotComparableError: the run is of another plan or did not run it, the baseline is of another job, or
            there is no prediction.
        ProfileError: the profile lacks rows for the plan.
    """
    notes = list(check_plan(plan, plan_file, run.telemetry, run.file))
    measured = read_run(run.telemetry, run.file, skip)
    if not measured.of(0).any():
        raise NotComparableError(
            f"{run.file}: none of its {len(measured.numbers)} iterations ran the plan (it only observed, or ran "
            "alternatives); give it as --baseline, or run in apply mode"
        )
    notes += run_notes(measured)
    if profile is not None:
        notes += check_profile(profile, run.telemetry, run.file)
    promised = promises(plan, measured, profile, schedule)
    sections = tuple(
        _section(measured, alternative, promise, tolerance, time_only)
        for alternative, promise in promised.items()
    )
    notes += [*time_notes(plan.pipeline, profile), *profile_notes(promised), *section_notes(sections)]
    saving, more = _saving(plan, measured, run, baselines, skip)
    ops = chosen_ops(run.telemetry, np.array(sections[0].numbers))
    rows = op_rows(ops, profile, None if profile is None else planned_times_s(plan.stages, profile))
    notes += clock_notes(rows)
    work = work_rows(rows, ops)
    return Verification(
        scope=scope_lines(measured, skip),
        notes=(*notes, *more),
        tolerance=tolerance,
        prediction="the plan's own" if profile is None else "the given profile's for the plan's clocks",
        sections=sections,
        saving=saving,
        ops=rows,
        work=work,
        worst=worst_stage(sections, work),
    )


def _section(run: Run, alternative: int, promise: Promise, tolerance: float, time_only: bool) -> Section:
    ran = run.of(alternative)
    kept = run.typical(ran)
    stalls = tuple(run.numbers[ran & ~kept].tolist())
    time = compare(promise.time_s, estimate(run.time_s[kept]), tolerance)
    energy = compare(promise.covered_j(run), estimate(run.energy_j[kept]), tolerance)
    if (why := _unlike_the_pipeline(run, promise)) is not None:
        energy = doubt(energy, why)
    if promise.unpriced is not None:
        time, energy = (doubt(one, "the profile does not tell what the plan costs") for one in (time, energy))
    if time_only:
        energy = not_judged(energy, "--time-only")
    few = alternative and int(kept.sum()) < FEWEST_FOR_CORRELATION
    return Section(
        alternative=alternative,
        numbers=tuple(run.numbers[kept].tolist()),
        stalls=stalls,
        stall_share=float(run.time_s[ran].mean() / run.time_s[kept].mean() - 1),
        time=_judged(time, int(ran.sum()), len(stalls), few=bool(few)),
        energy=_judged(energy, int(ran.sum()), len(stalls), few=bool(few)),
        stages=tuple(_stage(run, kept, stage, promise) for stage in range(len(run.boards))),
    )


def _unlike_the_pipeline(run: Run, promise: Promise) -> str | None:
    """Why the energies that were read do not stand for those of the whole pipeline; None where they do."""
    if not run.gpus:
        return "no GPU gave a reading"
    if run.unread:
        return f"no GPU of stage {', '.join(map(str, run.unread))} gave a reading"
    if promise.stage_energy_j is None and len(set(run.boards)) > 1:
        return "GPUs without a reading are spread unevenly over the stages; give --profile"
    return None


def _judged(one: Quantity, ran: int, stalls: int, *, few: bool) -> Quantity:
    """The same, where enough iterations ran as a plan can predict them.

    A plan's alternatives run for as long as a straggler lasts, so a handful of iterations of one fails nothing.
    """
    if few:
        return not_judged(one, f"fewer than {FEWEST_FOR_CORRELATION} iterations")
    if stalls > max(MOST_STALLS * ran, 1) and one.verdict.judged:
        return doubt(one, f"{stalls} of {ran} iterations stalled")
    return one


def _stage(run: Run, kept: Flags, stage: int, promise: Promise) -> StageRow:
    predicted_j = None if promise.stage_energy_j is None else promise.stage_energy_j[stage]
    boards = run.boards[stage]
    return StageRow(
        stage=stage,
        boards=boards,
        time=compare(promise.time_s, estimate(run.stage_time_s[kept, stage])),
        energy=compare(predicted_j, estimate(run.stage_energy_j[kept, stage]), scale=boards),
    )


def _saving(
    plan: Plan, measured: Run, run: Recorded, baselines: Sequence[Recorded], skip: int
) -> tuple[Saving | None, tuple[str, ...]]:
    if not baselines:
        return predicted_saving(plan), ()
    others = [read_run(one.telemetry, one.file, skip) for one in baselines]
    for one, other in zip(baselines, others, strict=True):
        check_baseline(measured, other, (run.file, one.file))
    return measured_saving(measured, others)
