"""`energyopt profile`, start to end: workload, board, measurement, file."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from energyopt.applier.devices.interface import Device
from energyopt.profiler.benches.interface import Bench
from energyopt.profiler.clocks import CURRENT, choose_clocks
from energyopt.profiler.distributed.launch import find_launch
from energyopt.profiler.measurement.job import Job, Measured
from energyopt.profiler.measurement.partial import Partial, partial_path
from energyopt.profiler.measurement.profile import profile_of
from energyopt.profiler.measurement.run import measure
from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.measurement.sweep import Progress
from energyopt.profiler.opening import (
    check_able,
    check_simulable,
    is_simulated,
    open_board,
    open_simulated,
    open_torch,
    sm_count,
)
from energyopt.profiler.overlapped import check_overlap, check_sms, overlapped
from energyopt.profiler.request import Request, digest_of, ignored_settings
from energyopt.profiler.search.budgeting import check_search
from energyopt.profiler.search.packages import check_packages
from energyopt.profiler.site_lock import refuse_unknown_lock
from energyopt.profiler.surroundings import fleeting_journal, others_on
from energyopt.profiler.workloads.communication import communicates, without_communication
from energyopt.profiler.workloads.interface import Workload
from energyopt.profiler.workloads.open import load_workload
from energyopt.schemas.errors import MeasurementError, RequestError
from energyopt.schemas.files import check_target
from energyopt.schemas.profile import Profile, write_profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """Who hears what goes on: the share that is done, words for the user, and warnings."""

    progress: Progress
    say: Callable[[str], None]
    warn: Callable[[str], None]


def run_profile(request: Request, voice: Voice) -> Profile | None:
    """Measure a workload and write its profile; None on the ranks that only sent their part to rank 0.

    Raises:
        EnergyoptError: a subclass says what cannot be measured, set, read or written.
    """
    check_target(request.output)
    launch = find_launch(os.environ)
    several = launch if launch is not None and launch.size > 1 else None
    workload = load_workload(request.workload, request.shape)
    if request.settings.search:
        check_packages()
    if request.overlap:
        _check_overlap(request, workload)
    if is_simulated(request.device):
        check_simulable(workload)
    if several is None or several.rank == 0:
        for flag, reason in ignored_settings(request, workload, alone=several is None):
            voice.warn(f"{flag} is ignored: {reason}")
    if several is not None:
        from energyopt.profiler.distributed.together import profile_together

        return profile_together(request, workload, several, voice)
    return _profile_alone(request, workload, voice)


def _profile_alone(request: Request, workload: Workload, voice: Voice) -> Profile:
    workload = _for_one_process(request, workload)
    with _bench(request, workload, voice) as bench:
        sms = sm_count(request.device, bench.device, kernels_on=request.kernels_on, cuda_number=0)
        workload = suited(request, workload, bench.device, sms)
        settings = settings_for(request, bench.device, voice)
        check_search(workload, settings)
        return _measure_and_write(job_for(request, bench, workload, settings, voice), request)


def suited(request: Request, workload: Workload, board: Device, sms: int | None) -> Workload:
    """What is measured on a GPU with so many SMs, None where that is not known: with --overlap partitions as well.

    Raises:
        RequestError: communication on more SMs than there are.
        WorkloadError: kernels whose work is not stated cannot be simulated.
    """
    if request.overlap:
        workload = overlapped(request.workload, workload, sms)
    check_sms(workload, sms, board.identity.name)
    if is_simulated(request.device):
        check_simulable(workload)
    return workload


def _check_overlap(request: Request, workload: Workload) -> None:
    if request.skip_communication:
        raise RequestError("--skip-communication leaves out what --overlap measures: give one of the two")
    check_overlap(request.workload, workload)


def job_for(request: Request, bench: Bench, workload: Workload, settings: Settings, voice: Voice) -> Job:
    """What one process measures; several ranks add whom they measure with."""
    return Job(
        bench=bench,
        workload=workload,
        settings=settings,
        progress=voice.progress,
        say=voice.say,
        warn=voice.warn,
        kernels_on="simulation" if is_simulated(request.device) else request.kernels_on,
        check_first=refuse_unknown_lock if request.site_lock is None else None,
    )


@contextmanager
def _bench(request: Request, workload: Workload, voice: Voice) -> Iterator[Bench]:
    if is_simulated(request.device):
        yield open_simulated(request.device, None, request.power_limit_w, request.settings.seed)
        return
    kernels_on = request.kernels_on
    with closing(
        open_board(request.device, None, kernels_on=kernels_on, site_lock=request.site_lock)
    ) as board:
        check_able(board, sets_clocks=request.clocks != CURRENT)
        look_around(request, board, voice, journal=True)
        bench = open_torch(board, workload, kernels_on=kernels_on, cuda_number=0, groups=None, peer=None)
        with closing(bench):
            yield bench


def look_around(request: Request, board: Device, voice: Voice, *, journal: bool) -> None:
    """Warn of what may spoil the run; to be done before this process works on the board.

    journal: whether this process speaks of the clock journal, which all of a machine share.
    """
    for warning in others_on(board):
        voice.warn(warning)
    if journal and request.clocks != CURRENT:
        for warning in fleeting_journal(board):
            voice.warn(warning)


def _for_one_process(request: Request, workload: Workload) -> Workload:
    if not communicates(workload):
        return workload
    if request.skip_communication:
        return without_communication(workload)
    if is_simulated(request.device):
        return workload
    raise RequestError(
        f"{workload.name} communicates between {workload.gpus_together} GPUs per stage and this is one process: "
        f"use torchrun with {workload.gpus_together} processes, or leave that out with --skip-communication"
    )


def settings_for(request: Request, board: Device, voice: Voice) -> Settings:
    """The settings with the clocks that the request means on this board."""
    if board.identity.mig:
        voice.warn(
            f"{board.identity.name} is shared by MIG: its readings are those of the whole board, so the energies "
            "are an upper limit while other slices work, and slices must not be added up"
        )
    clocks = choose_clocks(request.clocks, board.supported_sm_clocks_mhz())
    if clocks.snapped:
        asked, snapped = clocks.snapped[0]
        more = f", and {len(clocks.snapped) - 1} more likewise" if len(clocks.snapped) > 1 else ""
        voice.warn(f"{asked} MHz is no step of this board; {snapped} MHz is measured instead{more}")
    return replace(request.settings, clocks_mhz=clocks.chosen_mhz)


def _measure_and_write(job: Job, request: Request) -> Profile:
    """Measure what an earlier, stopped run has not, and write the profile; its record then goes."""
    with open_partial(job, request, request.output) as partial:
        profile = profile_or_discard(job, partial, _measure(job, partial), rank=None)
        write_profile(request.output, profile)
        partial.discard()
    return profile


def profile_or_discard(job: Job, partial: Partial, measured: Measured, rank: int | None) -> Profile:
    """The profile of what was measured; a record that is worth nothing goes, so that the next run looks again.

    Windows that count are kept: the next run takes again those that were rejected.

    Raises:
        MeasurementError: no op has a row that may be used.
    """
    try:
        return profile_of(job, measured, rank)
    except MeasurementError as error:
        if not partial.has_windows:
            partial.discard()
            raise
        raise MeasurementError(f"{error}; the windows that count are kept in {partial.path}") from error


def _measure(job: Job, partial: Partial) -> Measured:
    try:
        return measure(job, partial)
    except KeyboardInterrupt:
        if partial.has_windows:
            job.say(f"what was measured is kept in {partial.path}: the same command goes on from there")
        raise


def open_partial(job: Job, request: Request, output: Path) -> Partial:
    """The record of this run beside its output, with what an earlier run of the same kind has left in it."""
    path, board = partial_path(output), job.bench.device.identity
    digest = digest_of(job.workload, job.settings, board, request.kernels_on)
    what = f"{job.workload.name} on {board.name}"
    partial = Partial(path, digest, what, restart=request.restart)
    windows = len(partial.all("window"))
    if windows or partial.rejected:
        again = f"; {partial.rejected} that were rejected are measured again" if partial.rejected else ""
        job.say(f"going on with {path}: {windows} windows are there already{again}")
    return partial
