"""What a run measured, as a profile with its provenance."""

import platform
import sys
from datetime import UTC, datetime

from energyopt.profiler.measurement.compose import gaps_of, rows_of
from energyopt.profiler.measurement.job import Job, Measured
from energyopt.profiler.workloads.interface import Workload
from energyopt.schemas.errors import MeasurementError
from energyopt.schemas.ops import OpKey
from energyopt.schemas.partition_order import PartitionOrder
from energyopt.schemas.profile import Level, Profile
from energyopt.schemas.profile_metadata import DeviceKind, ProfileMetadata, Scope


def profile_of(job: Job, measured: Measured, rank: int | None = None) -> Profile:
    """The profile of one rank; `rank` is None where there is only one.

    Raises:
        MeasurementError: no op has a row that may be used; gives the reason that came up most.
    """
    rows = rows_of(job.workload, measured.windows, measured.clocks_mhz, measured.calibration.source, rank)
    if not any(row.level is Level.OP and row.invalid is None for row in rows):
        raise MeasurementError(f"nothing could be measured: {_most_common_reason(measured)}")
    if gaps := gaps_of(job.workload, measured.windows, measured.clocks_mhz):
        more = f", and {len(gaps) - 1} more" if len(gaps) > 1 else ""
        job.warn(f"no number, and no row for what runs it: {gaps[0]}{more}")
    return Profile(metadata=_metadata(job, measured, len(gaps)), rows=tuple(rows))


def _most_common_reason(measured: Measured) -> str:
    reasons = [one.rejected for several in measured.windows.values() for one in several if one.rejected]
    return max(set(reasons), key=reasons.count) if reasons else "no window was measured"


def _metadata(job: Job, measured: Measured, gaps: int) -> ProfileMetadata:
    board, resting = job.bench.device.identity, measured.resting
    return ProfileMetadata(
        device_name=_device_name(job),
        device_kind=DeviceKind(board.kind),
        device_uuid=board.uuid,
        driver=board.driver,
        power_limit_w=board.power_limit_w,
        memory_clock_mhz=board.memory_clock_mhz,
        scope=Scope(board.scope),
        wait_power_w=resting.wait_power.mean,
        idle_power_w=resting.idle_power.mean,
        clock_switch_latency_s=None if measured.latency is None else measured.latency.median_s,
        gpus_per_stage=job.workload.gpus_per_stage,
        workload=dict(job.workload.settings),
        measurement=_measurement(job, measured) | {"kernels_without_number": gaps},
        partition_order=_partition_order(job.workload),
        source=job.workload.name,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        host=platform.node() or None,
    )


def _partition_order(workload: Workload) -> PartitionOrder:
    """In which order the partitions of each op run, whole or cut, for ops that have several."""
    orders = {
        OpKey(op.stage, op.chunk, op.kind): tuple(
            dict.fromkeys(use.partition.name for use in (*op.partitions, *op.split))
        )
        for op in workload.ops
    }
    return {key: names for key, names in orders.items() if len(names) > 1}


def _device_name(job: Job) -> str:
    """The board's name, and what makes its numbers unfit for the plan of a job on such a board."""
    board = job.bench.device.identity
    slice_of = " (MIG slice)" if board.mig else ""
    return f"{board.name}{slice_of}{' (kernels on the CPU)' if job.kernels_on == 'cpu' else ''}"


def torch_version() -> str | None:
    """The version of torch that this process has loaded."""
    version = getattr(sys.modules.get("torch"), "__version__", None)
    return None if version is None else str(version)


def _measurement(job: Job, measured: Measured) -> dict[str, str | int | float]:
    """How it was measured, for whoever has to defend the numbers."""
    windows = [one for several in measured.windows.values() for one in several]
    calibration, plan, latency = measured.calibration, measured.plan, measured.latency
    found: dict[str, str | int | float | None] = {
        "energy_source": str(calibration.source),
        "power_meaning": str(job.bench.device.identity.power_meaning),
        "tick_s": calibration.tick_s,
        "counter_over_power": calibration.counter_over_power,
        "window_s": plan.timing.window_s,
        "warm_up_s": plan.timing.warm_up_s,
        "cool_down_s": plan.timing.cool_down_s,
        "windows_per_row": plan.windows,
        "windows": len(windows),
        "rejected_windows": sum(one.tries - one.usable for one in windows),
        "lost_readings": sum(one.lost_readings for one in windows),
        "largest_idle_share": max((one.idle_share for one in windows), default=None),
        "kernels_on": job.kernels_on,
        "torch": torch_version(),
        "mig": "yes: energy of the whole board" if job.bench.device.identity.mig else None,
        "wait_power_half_width_w": measured.resting.wait_power.half_width,
        "clocks_set": "yes" if job.settings.clocks_mhz else "no: as the board was found",
        "stopped_early_at_mhz": measured.stopped_at_mhz,
        "longest_clock_switch_s": None if latency is None else latency.longest_s,
        "missed_clock_switches": None if latency is None else latency.missed,
        "seed": job.settings.seed,
    }
    if measured.search is not None:
        found |= measured.search.metadata()
    return {name: value for name, value in found.items() if value is not None}
