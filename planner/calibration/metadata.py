"""What a calibrated profile says of itself: device, fitted times and powers, and how well the runs are met."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.calibration.iteration_time import TimeFit
from energyopt.planner.calibration.op_energies import EnergyFit
from energyopt.planner.calibration.samples import Sample
from energyopt.schemas.profile import Profile
from energyopt.schemas.profile_metadata import DeviceKind, ProfileMetadata, Scope
from energyopt.schemas.telemetry import Telemetry


def calibrated_metadata(
    telemetry: Telemetry,
    samples: Sequence[Sample],
    profile: Profile | None,
    times: TimeFit,
    energies: EnergyFit,
) -> ProfileMetadata:
    """The metadata of a profile corrected, or made new, with the samples of runs like `telemetry`."""
    pipeline = telemetry.metadata.pipeline
    off_s, off_j = _residuals(samples, times, energies)
    found: dict[str, str | int | float | None] = {
        "calibrated_runs": len(samples),
        "calibrated_iterations": sum(one.time.iterations for one in samples),
        "calibrated_stages": pipeline.stages,
        "calibrated_microbatches": pipeline.microbatches,
        "calibrated_schedule": pipeline.schedule,
        "calibrated_from_profile": None if profile is None else profile.sha256(),
        "fixed_time_half_width_s": times.fixed_half_s,
        "p2p_time_half_width_s": times.p2p_half_s,
        "wait_power_half_width_w": energies.wait_half_w,
        "iteration_time_residual_median": float(np.median(off_s)),
        "iteration_time_residual_max": float(np.max(off_s)),
        "gpu_energy_residual_median": float(np.median(off_j)),
        "gpu_energy_residual_max": float(np.max(off_j)),
    }
    base = _new_metadata(telemetry) if profile is None else profile.metadata
    return replace(
        base,
        wait_power_w=energies.wait_power_w,
        fixed_time_s=times.fixed_time_s,
        p2p_time_s=times.p2p_time_s,
        measurement={name: value for name, value in (base.measurement | found).items() if value is not None},
        source=f"calibrated with {len(samples)} runs" + (f"; {base.source}" if base.source else ""),
    )


def _residuals(samples: Sequence[Sample], times: TimeFit, energies: EnergyFit) -> tuple[Floats, Floats]:
    """Relative, of iteration times and of single GPUs' energies."""
    measured_s = np.array([one.time.mean for one in samples])
    off_j = np.abs(energies.predicted_j / energies.measured_j - 1)
    return np.abs(times.predicted_s / measured_s - 1), off_j[np.isfinite(off_j)]


def _new_metadata(telemetry: Telemetry) -> ProfileMetadata:
    meta = telemetry.metadata
    pipeline = meta.pipeline
    names = sorted({gpu.name for gpu in meta.gpus if gpu.name is not None})
    return ProfileMetadata(
        device_name=" and ".join(names) or "unnamed GPU",
        device_kind=DeviceKind.IMPORTED,
        wait_power_w=0.0,
        gpus_per_stage=pipeline.tensor_parallel * pipeline.context_parallel,
        scope=Scope(next(iter(meta.scopes), Scope.GPU_BOARD)),
        workload={"tp": pipeline.tensor_parallel, "cp": pipeline.context_parallel},
    )
