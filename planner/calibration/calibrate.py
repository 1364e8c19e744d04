"""Fitting a profile to runs: from telemetries to a profile that predicts them."""

from collections.abc import Collection, Sequence

import numpy as np

from energyopt.planner.calibration.checks import check_request, check_same, reach_notes
from energyopt.planner.calibration.fitted_times import fitted_times
from energyopt.planner.calibration.iteration_time import Known, TimeFit, fit_iteration_time
from energyopt.planner.calibration.metadata import calibrated_metadata
from energyopt.planner.calibration.op_energies import EnergyFit, ProfilePower, Ramps, Shapes, fit_energies
from energyopt.planner.calibration.op_times import Curve, Measured, fit_curve, fit_ratio, measured_by_clock
from energyopt.planner.calibration.records import Calibration, Fitted, FittedOp, FittedRun
from energyopt.planner.calibration.replicas import slowest_replica
from energyopt.planner.calibration.rows import calibrated_rows, kept_partitions
from energyopt.planner.calibration.samples import Sample, read_samples
from energyopt.planner.options import OptionTable
from energyopt.planner.verification.pricing import Prices
from energyopt.planner.verification.runs import WARM_UP, Recorded
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey, Schedule
from energyopt.schemas.options import Option
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.profile import Profile


def calibrate(
    runs: Sequence[Recorded],
    schedule: Schedule,
    *,
    profile: Profile | None = None,
    wait_power_w: float | None = None,
    skip: int = WARM_UP,
) -> Calibration:
    """Fit to runs of one job: fixed time, P2P time, the operations' times and energies, and wait power.

    Every operation of the runs is taken to be plain: one kernel after the other on the whole microbatch. Runs do
    not record how partitions ran, so those of plans that cut microbatches or overlap must be left out by whoever
    gives them. A profile's rows of partitions are kept, and planned with in proportion to the corrected rows.

    profile: to be corrected; without one, rows are made from the runs alone, at the clocks that they ran at.
    skip: how many recorded iterations at the start of each run are left out.

    Raises:
        RequestError: no run, or an impossible wait power.
        NotComparableError: the runs are of different jobs or GPUs, or miss operations.
        ProfileError: something cannot be told from these runs; the text says what is missing.
    """
    check_request(runs, wait_power_w)
    check_same(runs, profile)
    read = [read_samples(one, schedule, skip) for one in runs]
    samples = [sample for one in read for sample in one.found]
    keys = {op.key for op in schedule.ops}
    options = None if profile is None else _plain_options(profile, keys)
    weights = np.array([one.weight for one in samples])
    slowest = slowest_replica(schedule, [one.op_time_s for one in samples], weights)
    measured = _measured(schedule, samples, slowest)
    reach = [] if options is None else reach_notes(measured, options)
    curves = {
        key: fit_curve(one) if options is None else fit_ratio(one, options[key])
        for key, one in measured.items()
    }
    op_time_s = fitted_times(schedule, samples, curves, slowest)
    pipeline = runs[0].telemetry.metadata.pipeline
    times = fit_iteration_time(
        schedule, op_time_s, [one.time for one in samples], _known_p2p(pipeline, profile), weights
    )
    known_w = profile.metadata.wait_power_w if profile is not None and wait_power_w is None else wait_power_w
    energies = fit_energies(schedule, samples, op_time_s, _shapes(samples, options), known_w)
    partitions = kept_partitions(profile)
    rows = (*calibrated_rows(curves, measured, energies), *partitions)
    metadata = calibrated_metadata(runs[0].telemetry, samples, profile, times, energies)
    return Calibration(
        profile=Profile(metadata=metadata, rows=rows),
        scope=tuple(one.scope for one in read),
        fitted=_fitted(pipeline, profile, known_w, times, energies),
        runs=_runs(samples, times, energies),
        ops=tuple(
            _fitted_op(
                key,
                measured[key],
                curves[key],
                energies,
                None if options is None else options[key],
                len(samples) * sum(op.key == key for op in schedule.ops),
            )
            for key in sorted(keys)
        ),
        notes=(
            *(note for one in read for note in one.notes),
            *reach,
            *_fit_notes(times, samples, slowest),
            *_profile_notes(profile, len(partitions)),
        ),
    )


def _plain_options(profile: Profile, keys: Collection[OpKey]) -> OptionTable:
    """What a profile says that operations cost without a plan.

    Raises:
        ProfileError: it has no row for one, or only rows of partitions that cut their microbatch.
    """
    prices, found = Prices(profile, keys), {}
    for key in sorted(keys):
        series = prices.series(key)
        if not series.options:
            raise ProfileError(
                f"the profile does not tell what runs cost that follow no plan: {series.why}; profile operations "
                "as a whole, or calibrate without a profile"
            )
        found[key] = series.options
    return found


def _known_p2p(pipeline: Pipeline, profile: Profile | None) -> Known:
    """A profile's, with the interval that an earlier calibration gave it, before the runs' own setting."""
    if profile is None or profile.metadata.p2p_time_s is None:
        return Known(p2p_time_s=pipeline.p2p_time_s)
    half_s = profile.metadata.measurement.get("p2p_time_half_width_s")
    return Known(
        p2p_time_s=profile.metadata.p2p_time_s,
        half_s=float(half_s) if isinstance(half_s, (int, float)) else None,
    )


def _measured(schedule: Schedule, samples: Sequence[Sample], replica: int) -> dict[OpKey, Measured]:
    """By key, the operations of one replica in all runs."""
    places: dict[OpKey, list[int]] = {}
    for number, op in enumerate(schedule.ops):
        places.setdefault(op.key, []).append(number)
    return {
        key: measured_by_clock(
            np.concatenate([one.clock_mhz[replica, ops] for one in samples]),
            np.concatenate([one.op_time_s[replica, ops] for one in samples]),
            np.repeat([one.weight for one in samples], len(ops)),
            np.concatenate([one.seen_mhz[replica, ops] for one in samples]),
            np.concatenate([one.throttle[replica, ops] for one in samples]),
        )
        for key, ops in places.items()
    }


def _shapes(samples: Sequence[Sample], options: dict[OpKey, tuple[Option, ...]] | None) -> Shapes:
    if options is not None:
        return ProfilePower(options)
    return Ramps(sorted({int(clock) for one in samples for clock in one.clock_mhz.flat}))


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
    key: OpKey,
    measured: Measured,
    curve: Curve,
    energies: EnergyFit,
    options: tuple[Option, ...] | None,
    count: int,
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
        ops=count,
        time_ratio=time_ratio,
        energy_ratio=energy_ratio,
        residual=float(np.sqrt(np.average(off**2, weights=measured.ops))),
    )


def _fit_notes(times: TimeFit, samples: Sequence[Sample], slowest: int) -> list[str]:
    found = []
    if times.overlap:
        found.append(
            f"the operations' longest path takes {100 * times.overlap:.2f} % more than the iterations, in the mean "
            "of the runs: the fixed time is set to 0, and predictions come out that much too long"
        )
    replicas = len(samples[0].op_time_s)
    if replicas > 1:
        found.append(
            f"{replicas} data-parallel replicas: times of operations are those of the replica with the longest "
            f"path, number {slowest} from 0, energies the mean of all"
        )
    return found


def _profile_notes(profile: Profile | None, partitions: int) -> tuple[str, ...]:
    if profile is None:
        return ("no profile was given: rows cover the clocks that the runs ran at, and no others",)
    if partitions:
        return (
            f"{partitions} rows of partitions are kept as they were measured; plans scale them as the operations' "
            "rows were corrected",
            "runs do not record how partitions ran: all are taken to have overlapped nothing and cut no "
            "microbatch, so leave out runs of plans that do",
        )
    return ("rows of partitions and kernels are left out: plans use rows of operations alone",)
