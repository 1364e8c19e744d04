"""Taking hold of a board before anything is measured on it."""

from contextlib import ExitStack

from energyopt.applier.guard.hold import HeldClocks, guarded_clocks
from energyopt.applier.guard.locks import reserved
from energyopt.profiler.measurement.job import Job
from energyopt.profiler.measurement.latency import Locks, lightest


def take_board(job: Job, stack: ExitStack) -> Locks | None:
    """Reserve the board and set the highest clock; None where no clock is to be set.

    The board is given back when the stack is left.

    Raises:
        EnergyoptError: it may not be clocked, is in use by another process, or seems to be locked by the site.
    """
    if not job.settings.clocks_mhz:
        stack.enter_context(reserved(job.bench.device))
        return None
    locks = stack.enter_context(guarded_clocks(job.bench.device))
    _tell_recovered(job, locks)
    _check_first(job)
    locks.lock(job.settings.clocks_mhz[0])
    return locks


def _check_first(job: Job) -> None:
    if job.check_first is not None:
        kernel = lightest(job.workload.kernels())
        job.bench.prepare(kernel)
        job.check_first(job.bench, kernel)


def _tell_recovered(job: Job, locks: HeldClocks) -> None:
    for journal in locks.recovered:
        job.warn(f"gave back the clocks of {journal.uuid}, which process {journal.owner.pid} had left set")
