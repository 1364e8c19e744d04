"""Verifying a plan: predicted beside measured, for the whole pipeline, each stage, and each kind of operation."""

from pathlib import Path

from energyopt.planner.arrays import Flags
from energyopt.planner.verification.judging import compare
from energyopt.planner.verification.matching import check_baseline, check_plan, check_scope
from energyopt.planner.verification.notes import clock_notes, profile_notes, section_notes, worst_stage
from energyopt.planner.verification.operations import chosen_ops, op_rows, work_rows
from energyopt.planner.verification.promises import Promise, promises
from energyopt.planner.verification.records import Saving, Section, StageRow, Verification
from energyopt.planner.verification.runs import Recorded, Run, read_run
from energyopt.planner.verification.saving import measured_saving, predicted_saving
from energyopt.planner.verification.scope import run_notes, scope_lines
from energyopt.planner.verification.statistics import FEWEST, estimate
from energyopt.schemas.errors import NotComparableError
from energyopt.schemas.ops import Schedule
from energyopt.schemas.plan import Plan
from energyopt.schemas.profile import Profile


def verify(
    plan: Plan,
    plan_file: Path,
    run: Recorded,
    *,
    baseline: Recorded | None = None,
    profile: Profile | None = None,
    schedule: Schedule | None = None,
    tolerance: float = 0.02,
    skip: int = 0,
) -> Verification:
    """Compare a plan's prediction with a run of it.

    profile: where given, the prediction is recomputed from it for the plan's clocks (and needs `schedule`), and
        operations are compared with its rows; without, the plan's own prediction is judged.

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
        check_scope(profile.metadata.scope, "the profile's", run.telemetry, run.file)
    promised = promises(plan, measured, profile, schedule)
    sections = tuple(
        _section(measured, alternative, promise, tolerance)
        for alternative, promise in enumerate(promised)
        if measured.of(alternative).any()
    )
    notes += profile_notes(promised[0])
    notes += section_notes(sections)
    saving, more = _saving(plan, measured, run, baseline, skip)
    ops = chosen_ops(run.telemetry, measured.numbers[measured.of(0)])
    rows = op_rows(ops, profile)
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


def _section(run: Run, alternative: int, promise: Promise, tolerance: float) -> Section:
    ran = run.of(alternative)
    kept = run.typical(ran)
    enough = alternative == 0 or int(kept.sum()) >= FEWEST
    judged = tolerance if enough else None
    return Section(
        alternative=alternative,
        numbers=tuple(run.numbers[kept].tolist()),
        stalls=tuple(run.numbers[ran & ~kept].tolist()),
        stall_share=float(run.time_s[ran].mean() / run.time_s[kept].mean() - 1),
        time=compare(promise.time_s, estimate(run.time_s[kept]), judged),
        energy=compare(promise.covered_j(run), estimate(run.energy_j[kept]), judged),
        stages=tuple(_stage(run, kept, stage, promise) for stage in range(len(run.boards))),
    )


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
    plan: Plan, measured: Run, run: Recorded, baseline: Recorded | None, skip: int
) -> tuple[Saving | None, tuple[str, ...]]:
    if baseline is None:
        return predicted_saving(plan), ()
    other = read_run(baseline.telemetry, baseline.file, skip)
    check_baseline(measured, other, (run.file, baseline.file))
    return measured_saving(measured, other)
