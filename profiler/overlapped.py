"""The workload of `profile --overlap`: what overlaps, and on which numbers of SMs communication may run."""

from dataclasses import replace

from energyopt.profiler.workloads.communication import communicates
from energyopt.profiler.workloads.composites import overlappable, with_composites, with_sm_counts
from energyopt.profiler.workloads.interface import Kernel, Workload
from energyopt.profiler.workloads.job import counted
from energyopt.profiler.workloads.open import names_function
from energyopt.schemas.errors import RequestError

USUAL_SMS = tuple(range(3, 31, 3))
"""SM counts where nobody names any: up to somewhat more than libraries take by themselves, as NCCL 24 on an A100
with NVLink."""


def check_overlap(spec: str, workload: Workload) -> None:
    """Refuse a workload of which no communication can run beside compute kernels.

    Raises:
        RequestError: says what to change.
    """
    if any(overlappable(op) for op in workload.ops):
        return
    if not communicates(workload):
        raise RequestError(
            f"nothing in {workload.name} communicates, so --overlap has nothing to overlap: leave it out, or give "
            "a tensor, context or data degree"
        )
    if names_function(spec):
        raise RequestError(
            f"no partition of {workload.name} says where its communication may be launched: declare launch_points, "
            "or leave --overlap out"
        )
    raise RequestError(
        f"--overlap cuts each microbatch in two and this one has {_sequences(workload)}: "
        "give an even --microbatch-size, or leave --overlap out"
    )


def overlapped(spec: str, workload: Workload, sms: int | None) -> Workload:
    """The workload with all configurations of the partitions that overlap.

    Communication kernels on other numbers of SMs are then measured there, and not by themselves.

    sms: what the GPU has; None where that is not known.
    """
    if not names_function(spec):  # a function that names no counts means the library's own alone
        counts = tuple(one for one in USUAL_SMS if sms is None or one <= sms)
        workload = with_sm_counts(workload, counts)
    return replace(with_composites(workload), variants=())


def check_sms(workload: Workload, sms: int | None, gpu: str) -> None:
    """Refuse communication on more SMs than the GPU has.

    Raises:
        RequestError: names the counts.
    """
    asked = max((_sms(kernel) for kernel in workload.kernels()), default=0)
    if sms is not None and asked > sms:
        raise RequestError(
            f"communication cannot run on {asked} SMs: {gpu} has {sms}; give --comm-sms of at most {sms}"
        )


def _sequences(workload: Workload) -> str:
    return counted(int(workload.settings["microbatch_size"]), "sequence")


def _sms(kernel: Kernel) -> int:
    return 0 if kernel.communication is None else kernel.communication.sms or 0
