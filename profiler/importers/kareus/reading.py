"""The folder of one job as a profile.

Every number is kept as it was measured: the factor of 1.15 that the artifact applies to the sums of its partitions
is not applied. What lies between the partitions in training is thus not in the profile; runs have to tell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from energyopt.applier.kareus.boards import sms_of, too_many
from energyopt.profiler.importers import provenance, units
from energyopt.profiler.importers.kareus.coverage import (
    PartitionCoverage,
    coverage,
    incomplete,
    missing_logs,
)
from energyopt.profiler.importers.kareus.extras import EXTRAS, FOLDER, Means, read_extras, unused_folders
from energyopt.profiler.importers.kareus.job import Job, job_of
from energyopt.profiler.importers.kareus.logs import NAME, read_log
from energyopt.profiler.importers.kareus.order import order_of
from energyopt.profiler.importers.kareus.rows import less_than_waiting, rows_of
from energyopt.profiler.importers.kareus.windows import Choice, Chosen, choose, parse_window_ends
from energyopt.schemas.errors import FileFormatError, ProfileError
from energyopt.schemas.profile import Profile
from energyopt.schemas.profile_metadata import DeviceKind, ProfileMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class KareusImport:
    """A profile, how complete its source was, and what the user should know about it."""

    profile: Profile
    coverage: tuple[PartitionCoverage, ...]
    warnings: tuple[str, ...]


def read_kareus(
    folder: Path,
    *,
    device_name: str,
    wait_power_w: float,
    layers_per_stage: Sequence[int],
    recompute: bool = True,
    power_limit_w: float | None = None,
    workload: Mapping[str, str | int] | None = None,
    window_ends: Sequence[str] = (),
    block: int | None = None,
    keep_first: bool = False,
    strict: bool = True,
    sms: int | None = None,
) -> KareusImport:
    """Read what the artifact measured of one job; rows are of level `partition`, in seconds and joules per GPU.

    Args:
        folder: `<model>/cp1-tp8-bs8-seq4096`, with a folder for each partition and one for what is outside them.
        device_name: the GPU that it was measured on.
        wait_power_w: power of that GPU while it is blocked on a peer, W.
        layers_per_stage: layers of the model on each pipeline stage.
        recompute: a backward runs the forward's partitions again before its own.
        power_limit_w: the board's power limit; a mean power above 1.5 times it is refused.
        workload: what was measured, with the keys of `provenance.WORKLOAD_KEYS`, before what the names say.
        window_ends: `PARTITION=END` where a partition was measured with several window ends.
        block: the block size where a partition was measured with several.
        keep_first: of several measurements of one configuration keep the first instead of refusing.
        strict: refuse missing clocks; otherwise warn.
        sms: SMs of that GPU, where its name does not say or says it wrongly.

    Raises:
        FileFormatError: a damaged file or a value that cannot be; names file, line, key or column.
        ProfileError: contradicting, ambiguous or missing measurements.
        EnergyoptError: a setting that cannot be.
    """
    provenance.check_device_name(device_name)
    highest_w = units.checked_highest_power_w(wait_power_w, power_limit_w)
    job = job_of(folder, layers_per_stage, recompute=recompute, told=workload or {})
    names = [one.name for one in job.layout.forward + job.layout.backward]
    choice = Choice(ends=parse_window_ends(window_ends, names), block=block)
    partitions = _partitions(job, names, choice, highest_w, keep_first=keep_first)
    _check_sms(partitions, device_name, sms_of(device_name, sms))
    extras = read_extras(folder, highest_w, job.gpus_per_stage)
    covered = coverage(job, partitions, extras)
    gaps = incomplete(covered)
    if gaps and strict:
        raise ProfileError(f"{folder}: {gaps}; measure them, or pass --allow-incomplete")
    rows = rows_of(job, partitions, extras)
    metadata = ProfileMetadata(
        device_name=device_name,
        device_kind=DeviceKind.IMPORTED,
        wait_power_w=float(wait_power_w),
        gpus_per_stage=job.gpus_per_stage,
        power_limit_w=power_limit_w,
        workload=job.workload,
        measurement=_measurement(partitions),
        partition_order=order_of(job),
        source=provenance.printable(folder.name),
    )
    warnings = [gaps] if gaps else []
    warnings += _left_out(job, partitions, extras) + less_than_waiting(rows, wait_power_w)
    return KareusImport(
        profile=Profile(metadata=metadata, rows=rows), coverage=covered, warnings=tuple(warnings)
    )


def _partitions(
    job: Job, names: Sequence[str], choice: Choice, highest_w: float, *, keep_first: bool
) -> dict[str, Chosen]:
    if lacking := missing_logs(job):
        raise ProfileError(
            f"{job.folder}: there is no {', '.join(lacking)}; a {job.layout.name} job (cp={job.workload['cp']}) "
            f"has {', '.join(names)}"
        )
    logs = {name: read_log(job.folder / name / NAME, highest_w, keep_first=keep_first) for name in names}
    return {name: choose(name, log, choice) for name, log in logs.items()}


def _check_sms(partitions: Mapping[str, Chosen], device_name: str, sms: int | None) -> None:
    """Refuse communication on more SMs than the GPU has."""
    for chosen in partitions.values():
        for one in chosen.log.measured:
            if problem := too_many(one.config.sms, device_name, sms):
                raise FileFormatError(f"{chosen.log.path}: line {one.line}: {problem}")


def _measurement(partitions: Mapping[str, Chosen]) -> dict[str, str | int | float]:
    """What rows do not say of how they were measured."""
    found: dict[str, str | int | float] = {"format": "kareus"}
    for name, chosen in partitions.items():
        found[f"block_threads.{name}"] = chosen.block
        if chosen.end is not None:
            found[f"window_end.{name}"] = chosen.end
    found |= {f"count.{extra.file}": extra.count for extra in EXTRAS if extra.count > 1}
    return found


def _left_out(job: Job, partitions: Mapping[str, Chosen], extras: Mapping[str, Means]) -> list[str]:
    """What was read and not used, or not read at all."""
    found = []
    for name, chosen in partitions.items():
        if chosen.log.repeated:
            found.append(
                f"{name}: {chosen.log.repeated} later lines repeat a configuration; the first was kept"
            )
        if chosen.left_out:
            found.append(f"{name}: {chosen.left_out} lines of other window ends or block sizes were left out")
    several = [mean.rows for means in extras.values() for mean in means.values() if mean.rows > 1]
    if several:
        found.append(f"{FOLDER}: {len(several)} files hold up to {max(several)} rows; their means are used")
    if folders := _foreign(job.folder, partitions) + [
        f"{FOLDER}/{one}" for one in unused_folders(job.folder)
    ]:
        found.append(f"not read: {', '.join(map(provenance.printable, folders))}")
    return found


def _foreign(folder: Path, partitions: Mapping[str, Chosen]) -> list[str]:
    """Folders with a log that is of no partition of this layout."""
    return sorted(path.parent.name for path in folder.glob(f"*/{NAME}") if path.parent.name not in partitions)
