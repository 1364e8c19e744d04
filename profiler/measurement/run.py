"""A whole run on one rank: calibrate, warm the board, rest, sweep, time the switches."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any, TypeVar

from energyopt.profiler.measurement.agreement import Step, agree_to_go_on, try_together
from energyopt.profiler.measurement.budget import SweepPlan
from energyopt.profiler.measurement.calibration import Calibration, calibrate, heaviest
from energyopt.profiler.measurement.job import Job, Measured
from energyopt.profiler.measurement.latency import (
    LOAD_S,
    SWITCHES,
    Locks,
    SwitchLatency,
    lightest,
    switch_latency,
    was_held,
)
from energyopt.profiler.measurement.partial import Partial
from energyopt.profiler.measurement.records import read_calibration, read_latency, read_plan, read_resting
from energyopt.profiler.measurement.resting import Resting, attend_waits, idle_power, wait_power
from energyopt.profiler.measurement.settings import Timing, timing_for
from energyopt.profiler.measurement.sweep import Sweep, restore_windows
from energyopt.profiler.measurement.taking import take_board
from energyopt.profiler.measurement.trying import plan_for, plan_of_others, swept
from energyopt.profiler.measurement.warming import longest_soak_s, soak
from energyopt.profiler.search.driver import search
from energyopt.schemas.errors import EnergyoptError, MeasurementError
from energyopt.schemas.profile import EnergySource

Found = TypeVar("Found")


def measure(job: Job, partial: Partial) -> Measured:
    """Measure everything that the record does not hold yet.

    Clocks are given back however this ends.

    Raises:
        SetAsideError: this rank's board cannot be clocked or measured, and the others go on; it can still
            `assist` them from where it failed.
        EnergyoptError: a subclass says what cannot be measured or set, and what to do.
    """
    began_s = job.bench.now_s()
    with ExitStack() as stack:
        locks = _first_lock(job, stack)
        calibration = _kept(job, partial, "calibration", read_calibration, lambda: _calibrate(job))
        timing = timing_for(job.settings, calibration.tick_s, calibration.averaging_s)
        _soak(job)
        resting = _kept(job, partial, "resting", read_resting, lambda: _rest(job, calibration, timing))
        plan = _kept(job, partial, "plan", read_plan, lambda: plan_for(job, calibration, timing, began_s))
        job.say(_told(job, plan))
        sweep = _sweep(job, partial, locks, plan, calibration.source, resting.wait_power.mean)
        sweep.ends_s = _ends_s(job, began_s)
        clocks = sweep.run()
        outcome = search(job, sweep, partial, clocks) if job.settings.search else None
        latency = _kept(job, partial, "latency", read_latency, lambda: _latency(job, locks, sweep, clocks))
    return Measured(
        calibration=calibration,
        resting=resting,
        latency=latency,
        plan=plan,
        clocks_mhz=clocks,
        stopped_at_mhz=sweep.stopped_at_mhz,
        windows=sweep.windows,
        search=outcome,
    )


def assist(job: Job, partial: Partial, after: Step) -> None:
    """Take part in what the other ranks measure together, on a rank whose own board cannot be measured.

    after: what this rank has heard the others come through, by `measure` or `attend`.
    """
    if after < Step.CALIBRATION and not _all_have(job, have=True):
        attend(job)
    if after < Step.RESTING and not _all_have(job, have=True):
        attend_waits(job.bench)
        attend(job)
    plan = _kept(job, partial, "plan", read_plan, lambda: plan_of_others(job))
    sweep = _sweep(job, partial, None, plan, EnergySource.COUNTER, 0.0)
    sweep.ends_s = None if job.settings.budget_s is None else math.inf  # the others decide
    clocks = sweep.run()
    if job.settings.search:
        search(job, sweep, partial, clocks)
    _all_have(job, have=True)


def attend(job: Job) -> None:
    """Hear whether the other ranks go on, on a rank that was given up before."""
    agree_to_go_on(job.team, None, able=False, allow_partial=job.allow_partial)


def _first_lock(job: Job, stack: ExitStack) -> Locks | None:
    """Take hold of the board and set the highest clock, on all ranks or not at all; None where none is to be set.

    The board is given back when the stack is left.
    """
    return _try_together(job, Step.FIRST_LOCK, lambda: take_board(job, stack))


def _try_together(
    job: Job, step: Step, action: Callable[[], Found], failures: type[EnergyoptError] = EnergyoptError
) -> Found:
    return try_together(job.team, step, action, allow_partial=job.allow_partial, failures=failures)


def _kept(
    job: Job,
    partial: Partial,
    kind: str,
    build: Callable[[dict[str, Any]], Found],
    find: Callable[[], Found],
) -> Found:
    """What an earlier run found out, if it did so on all ranks; else what is found now, and kept."""
    earlier = partial.last(kind)
    if _all_have(job, have=earlier is not None) and earlier is not None:
        return build(earlier)
    found = find()
    if found is not None:
        partial.add(kind, asdict(found))  # type: ignore[call-overload]
    return found


def _all_have(job: Job, *, have: bool) -> bool:
    return all(job.team.gather(have))


def _calibrate(job: Job) -> Calibration:
    return _try_together(job, Step.CALIBRATION, lambda: _calibrated(job))


def _calibrated(job: Job) -> Calibration:
    job.progress("looking at the board's readings under load", 0.0)
    kernel = heaviest(job.workload.kernels())
    if kernel.communication is not None:
        raise MeasurementError(
            "a workload needs at least one kernel that computes, to load a board by itself"
        )
    job.bench.prepare(kernel)
    calibration = calibrate(job.bench, kernel, job.settings.source)
    timing_for(
        job.settings, calibration.tick_s, calibration.averaging_s
    )  # refuses a window that is too short
    if calibration.warning:
        job.warn(calibration.warning)
    return calibration


def _rest(job: Job, calibration: Calibration, timing: Timing) -> Resting:
    """What fails in the middle of a turn with another rank cannot be agreed on: that rank waits for this one."""
    return _try_together(
        job, Step.RESTING, lambda: _rested(job, calibration, timing), failures=MeasurementError
    )


def _rested(job: Job, calibration: Calibration, timing: Timing) -> Resting:
    job.progress("measuring idle and wait power", 0.0)
    kernel = heaviest(job.workload.kernels())
    job.bench.prepare(kernel)
    try:
        idle = idle_power(job.bench, kernel, calibration, timing)
    except EnergyoptError as error:
        if job.team.size == 1:
            raise
        attend_waits(job.bench)  # the rank that this one takes turns with measures its own wait power now
        raise MeasurementError(str(error)) from error
    return Resting(idle_power=idle, wait_power=wait_power(job.bench, kernel, calibration, timing))


def _told(job: Job, plan: SweepPlan) -> str:
    simulated = " in simulated time" if job.bench.device.identity.kind == "simulated" else ""
    return f"{plan}{simulated}"


def _ends_s(job: Job, began_s: float) -> float | None:
    """When the sweep has to end for the whole run to stay within its budget, by the bench's time."""
    budget_s = job.settings.budget_s
    return None if budget_s is None else began_s + budget_s - SWITCHES * LOAD_S


def _soak(job: Job) -> None:
    job.progress("warming the board", 0.0)
    soak(job.bench, job.workload.kernels(), longest_soak_s(job.settings))


def _sweep(
    job: Job,
    partial: Partial,
    locks: Locks | None,
    plan: SweepPlan,
    source: EnergySource,
    wait_power_w: float,
) -> Sweep:
    return Sweep(
        bench=job.bench,
        workload=swept(job),
        plan=plan,
        source=source,
        wait_power_w=wait_power_w,
        team=job.team,
        peers=job.peers,
        locks=locks,
        kept=partial,
        progress=job.progress,
        early_stop=job.settings.early_stop,
        seed=job.settings.seed,
        able=job.able,
        windows=restore_windows(partial.all("window")),
    )


def _latency(job: Job, locks: Locks | None, sweep: Sweep, clocks: tuple[int, ...]) -> SwitchLatency | None:
    """Between the highest and the lowest clock that one kernel was seen to hold."""
    kernel = lightest(job.workload.kernels())
    held = [clock for clock in clocks if was_held(sweep.windows.get((kernel.name, clock), []), clock)]
    if locks is None or len(held) < 2:
        return None
    job.progress("timing changes of the clock", 1.0)
    job.bench.prepare(kernel)
    return switch_latency(job.bench, locks, kernel, (held[0], held[-1]))
