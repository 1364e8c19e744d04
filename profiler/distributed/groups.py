"""The process groups that communication kernels run in: one per group of ranks and number of SMs, made up front."""

from typing import Any

from energyopt.profiler.workloads.interface import Communication, Workload
from energyopt.schemas.errors import WorkloadError

_Key = tuple[str, int, int | None]  # group name, ranks in it, SMs


class ProcessGroups:
    """All process groups of a workload; a call gives that of one communication kernel.

    On GPUs these are NCCL communicators, those with bounded SMs made with its max_ctas; on CPUs gloo's, where an SM
    count means nothing and is ignored.
    """

    def __init__(self, workload: Workload, size: int, *, cuda: bool) -> None:
        """Make them, on all ranks alike.

        Args:
            workload: the whole workload, not one stage's part: every rank must make every group.
            size: number of ranks.
            cuda: whether the kernels run on GPUs.
        """
        import torch.distributed as dist

        mine = dist.get_rank()
        self._groups: dict[_Key, Any] = {}
        wanted = {_key(one.communication) for one in workload.kernels() if one.communication is not None}
        for name, ranks, sms in sorted(wanted, key=lambda one: (one[0], one[1], one[2] or 0)):
            for members in members_of(name, ranks, size, workload.gpus_per_stage):
                group = dist.new_group(list(members), **_options(sms, cuda=cuda))
                if mine in members:
                    self._groups[name, ranks, sms] = group

    def __call__(self, communication: Communication) -> Any:
        """The group for a communication kernel.

        Raises:
            WorkloadError: there is none.
        """
        found = self._groups.get(_key(communication))
        if found is None:
            raise WorkloadError(f"this run has no {communication.group} group of {communication.ranks} ranks")
        return found


def members_of(name: str, ranks: int, size: int, gpus_per_stage: int) -> list[tuple[int, ...]]:
    """The ranks of every group of this name: neighbours for tensor parallelism, strided for the other two.

    Ranks of a context group are a tensor degree apart, those of a data group as far as a replica's stage has GPUs.
    """
    stride = {"tensor": 1, "data": gpus_per_stage}.get(name, gpus_per_stage // ranks)
    span = stride * ranks
    return [
        tuple(range(first + offset, first + offset + span, stride))
        for first in range(0, size, span)
        for offset in range(stride)
    ]


def _key(communication: Communication) -> _Key:
    return communication.group, communication.ranks, communication.sms


def _options(sms: int | None, *, cuda: bool) -> dict[str, Any]:
    if not cuda:
        return {"backend": "gloo"}
    if sms is None:
        return {"backend": "nccl"}
    import torch.distributed as dist

    options = dist.ProcessGroupNCCL.Options()
    options.config.max_ctas = sms
    options.config.min_ctas = min(sms, options.config.min_ctas) if options.config.min_ctas > 0 else 1
    return {"backend": "nccl", "pg_options": options}
