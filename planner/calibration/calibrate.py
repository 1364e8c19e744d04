"""Fitting a profile to runs: from telemetries to a profile that predicts them."""

import math
from collections.abc import Sequence

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.calibration.iteration_time import TimeFit, fit_iteration_time
from energyopt.planner.calibration.metadata import calibrated_metadata
from energyopt.planner.calibration.op_energies import EnergyFit, ProfilePower, Ramps, Shapes, fit_energies
from energyopt.planner.calibration.op_times import Curve, Measured, fit_curve, fit_ratio, measured_by_clock
from energyopt.planner.calibration.records import Calibration, Fitted, FittedOp, FittedRun
from energyopt.planner.calibration.rows import calibrated_rows
from energyopt.planner.calibration.samples import Sample, read_samples
from energyopt.planner.options import measured_options
from energyopt.planner.verification.runs import Recorded
from energyopt.schemas.errors import NotComparableError, RequestError
from energyopt.schemas.frontier import Option
from energyopt.schemas.ops import OpKey, Schedule
from energyopt.schemas.pipeline import Pipeline, same_job
from energyopt.schemas.profile import Profile


def calibrate(
    runs: Sequence[Recorded],
    schedule: Schedule,
    *,
    profile: Profile | None = None,
    wait_power_w: float | None = None,
    skip: int = 0,
) -> Calibration:
    """Fit to runs of one job: fixed time, P2P time, the operations' times and energies, and wait power.

    profile: to be corrected; without one, rows are made from the runs alone, at the clocks that they ran at.

    Raises:
        RequestError: no run, or an impossible wait power.
        NotComparableError: the runs are of different jobs or GPUs, or miss operations.
        ProfileError: something cannot be told from these runs; the text says what is missing.
    """
    _check_request(runs, wait_power_w)
    _check_same(runs, profile)
    samples = [sample for one in runs for sample in read_samples(one.telemetry, one.file, schedule, skip)]
    keys = {op.key for op in schedule.ops}
    options = None if profile is None else measured_options(profile, keys)
    measured = _measured(schedule, samples)
    curves = {
        key: fit_curve(one) if options is None else fit_ratio(one, options[key])
        for key, one in measured.items()
    }
    op_time_s = _fitted_times(schedule, samples, curves)
    pipeline = runs[0].telemetry.metadata.pipeline
    times = fit_iteration_time(
        schedule, op_time_s, [one.time for one in samples], _known_p2p_s(pipeline, profile)
    )
    known_w = profile.metadata.wait_power_w if profile is not None and wait_power_w is None else wait_power_w
    energies = fit_energies(schedule, samples, op_time_s, _shapes(samples, options), known_w)
    rows = calibrated_rows(curves, measured, energies)
    metadata = calibrated_metadata(runs[0].telemetry, samples, profile, times, energies)
    return Calibration(
        profile=Profile(metadata=metadata, rows=rows),
        fitted=_fitted(pipeline, profile, known_w, times, energies),
        runs=_runs(samples, times, energies),
        ops=tuple(
            _fitted_op(key, measured[key], curves[key], energies, None if options is None else options[key])
            for key in sorted(keys)
        ),
        notes=_notes(profile),
    )


def _check_request(runs: Sequence[Recorded], wait_power_w: float | None) -> None:
    if not runs:
        raise RequestError("calibrate needs at least one telemetry file")
    if wait_power_w is not None and not (math.isfinite(wait_power_w) and wait_power_w > 0):
        raise RequestError(f"--wait-power-w needs a power above 0, not {wait_power_w:g}")


def _check_same(runs: Sequence[Recorded], profile: Profile | None) -> None:
    first = runs[0].telemetry.metadata
    for other in runs[1:]:
        meta = other.telemetry.metadata
        difference = same_job(first.pipeline, meta.pipeline)
        if difference is not None:
            raise NotComparableError(f"{runs[0].file} and {other.file} are of different jobs: {difference}")
        for name in ("name", "scope"):
            one, two = (sorted({str(getattr(gpu, name)) for gpu in each.gpus}) for each in (first, meta))
            if one != two:
                raise NotComparableError(f"{runs[0].file} ran on {one}, {other.file} on {two}")
    scopes = sorted({gpu.scope for gpu in first.gpus})
    if profile is not None and scopes != [profile.metadata.scope]:
        raise NotComparableError(
            f"the profile's energies are of {profile.metadata.scope}, the runs' of {scopes}"
        )


def _known_p2p_s(pipeline: Pipeline, profile: Profile | None) -> float:
    if profile is not None and profile.metadata.p2p_time_s is not None:
        return profile.metadata.p2p_time_s
    return pipeline.p2p_time_s


def _measured(schedule: Schedule, samples: Sequence[Sample]) -> dict[OpKey, Measured]:
    places: dict[OpKey, list[int]] = {}
    for number, op in enumerate(schedule.ops):
        places.setdefault(op.key, []).append(number)
    return {
        key: measured_by_clock(
            np.concatenate([one.clock_mhz[ops] for one in samples]),
            np.concatenate([one.op_time_s[ops] for one in samples]),
        )
        for key, ops in places.items()
    }


def _fitted_times(schedule: Schedule, samples: Sequence[Sample], curves: dict[OpKey, Curve]) -> Floats:
    """[n, W]: the time of every operation of every run by the curves."""
    found = np.empty((len(schedule.ops), len(samples)))
    keys = [op.key for op in schedule.ops]
    for run, sample in enumerate(samples):
        pairs = list(zip(keys, sample.clock_mhz.tolist(), strict=True))
        known = {pair: float(curves[pair[0]].at(np.array([pair[1]]))[0]) for pair in set(pairs)}
        found[:, run] = [known[pair] for pair in pairs]
    return found


def _shapes(samples: Sequence[Sample], options: dict[OpKey, tuple[Option, ...]] | None) -> Shapes:
    if options is not None:
        return ProfilePower(options)
    return Ramps(sorted({int(clock) for one in samples for clock in one.clock_mhz}))


def _fitted(
    pipeline: Pipeline, profile: Profile | None, known_w: float | None, times: TimeFit, energies: EnergyFit
) -> tuple[Fitted, ...]:
    before = pipeline if profile is None else profile.metadata
    return (
        Fitted(
            name="fixed time",
            unit="s",
            before=before.fixed_time_s,
            value=times.fixed_time_s,
            half_width=times.fixed_half_s,
        ),
        Fitted(
            name="P2P time",
            unit="s",
            before=before.p2p_time_s,
            value=times.p2p_time_s,
            half_width=times.p2p_half_s,
            kept=times.p2p_kept,
        ),
        Fitted(
            name="wait power",
            unit="W",
            before=known_w,
            value=energies.wait_power_w,
            half_width=energies.wait_half_w,
        ),
    )


def _runs(samples: Sequence[Sample], times: TimeFit, energies: EnergyFit) -> tuple[FittedRun, ...]:
    return tuple(
        FittedRun(
            name=one.name,
            iterations=one.time.iterations,
            measured_s=one.time.mean,
            fitted_s=float(times.predicted_s[run]),
            measured_j=float(np.nansum(energies.measured_j[run])),
            fitted_j=float(np.nansum(energies.predicted_j[run])),
        )
        for run, one in enumerate(samples)
    )


def _fitted_op(
    key: OpKey, measured: Measured, curve: Curve, energies: EnergyFit, options: tuple[Option, ...] | None
) -> FittedOp:
    clocks = measured.clock_mhz.astype(np.int64)
    off = measured.time_s / curve.at(clocks) - 1
    time_ratio = energy_ratio = None
    if options is not None:
        known = np.array([one.sm_clock_mhz for one in options], dtype=np.int64)
        time_ratio = float(np.mean([curve.ratio_at(clock) for clock in known]))
        energy_j = np.array([one.energy_j for one in options])
        energy_ratio = float(np.mean(energies.power_w(key, known) * curve.at(known) / energy_j))
    return FittedOp(
        key=key,
        clocks=len(clocks),
        ops=int(measured.ops.sum()),
        time_ratio=time_ratio,
        energy_ratio=energy_ratio,
        residual=float(np.sqrt(np.average(off**2, weights=measured.ops))),
    )


def _notes(profile: Profile | None) -> tuple[str, ...]:
    if profile is None:
        return ("no profile was given: rows cover the clocks that the runs ran at, and no others",)
    return ("rows of partitions and kernels are left out: plans use rows of operations alone",)
