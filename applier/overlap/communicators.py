"""Process groups whose communication takes a bounded number of SMs: one per count, made before training begins."""

from itertools import count
from time import monotonic
from typing import Any

from energyopt.applier.overlap.consent import all_agree, waiting_s
from energyopt.applier.overlap.ways import Ways
from energyopt.applier.runtime.ranks import started_torch

_NUMBERS = count()  # of this process: all ranks ask for communicators in one order


class Communicators:
    """One group of ranks, once for each SM count of the plan.

    On GPUs these are NCCL communicators made with its `max_ctas`, and each of its CTAs takes an SM. Elsewhere a
    count means nothing. NCCL asks that all ranks start what runs in several communicators at once in one order,
    which they do where all run one program.

    group: a process group of torch.distributed; None for all ranks.
    """

    def __init__(self, group: Any = None) -> None:
        self._base = group
        self._bounded: dict[int, Any] = {}
        self._number = next(_NUMBERS)
        self.size = _size(group)

    def group(self, sms: int | None) -> Any:
        """The process group for a number of SMs; the given one for a count that the plan does not have."""
        return self._base if sms is None else self._bounded.get(sms, self._base)

    def make(self, ways: Ways, until_s: float | None = None) -> bool:
        """Make the groups for the plan's counts, with all ranks, or none on any of them; never raises.

        Args:
            ways: what is planned.
            until_s: when to stop waiting for other ranks, as `monotonic` counts; None for what they are given.

        Returns:
            Whether all ranks follow the plan's partitions.
        """
        try:
            until_s = monotonic() + waiting_s() if until_s is None else until_s
            if not all_agree(f"{self._number}/plan", ways.sha256, until_s - monotonic()):
                return False
            made = self._made(ways) if self._same_counts(ways, until_s) else None
            return all_agree(f"{self._number}/groups", made, until_s - monotonic())
        except Exception as error:  # torch's own, of all kinds
            ways.say(f"communicators cannot be made: {type(error).__name__}: {error}")
            return False

    def _same_counts(self, ways: Ways, until_s: float) -> bool:
        """Whether all ranks of the group make the same groups: each of these waits for all of its ranks."""
        if self.size <= 1:
            return True
        import torch.distributed as dist

        first = dist.get_process_group_ranks(self._base)[0]
        counts = " ".join(map(str, ways.sms))
        same = all_agree(f"{self._number}/counts/{first}", counts, until_s - monotonic(), self.size)
        if not same:
            ways.say(
                f"not all ranks of a group say the same SM counts as this one ({counts or 'none'}): they came too "
                "late, or are of several pipeline stages (session.communicators takes a group within one)"
            )
        return same

    def _made(self, ways: Ways) -> str | None:
        if self.size > 1:
            try:
                self._bounded = {sms: _bounded_group(self._base, sms) for sms in ways.sms}
            except Exception as error:
                ways.say(f"a communicator of bounded SMs cannot be made: {type(error).__name__}: {error}")
                return None
        return "made"


def bounded_options(sms: int) -> Any:
    """NCCL's options for at most this many CTAs, for `new_group`'s `pg_options`.

    Raises:
        AttributeError: this torch has no NCCL, or one before 2.17, which knows no bound.
    """
    import torch.distributed as dist

    options = dist.ProcessGroupNCCL.Options()
    options.config.max_ctas = sms
    options.config.min_ctas = min(sms, options.config.min_ctas) if options.config.min_ctas > 0 else 1
    return options


def _size(group: Any) -> int:
    torch = started_torch()
    return 1 if torch is None else int(torch.distributed.get_world_size(group))


def _bounded_group(base: Any, sms: int) -> Any:
    """A further group of the same ranks, which they alone make, ready for use.

    Where the default group is bound to a device, torch makes every new group by splitting the default one, in which
    all of its ranks must take part; there the given group is split instead.
    """
    import torch
    import torch.distributed as dist

    backend = str(dist.get_backend(base))
    nccl = "nccl" in backend
    options = bounded_options(sms) if nccl else None
    ranks = dist.get_process_group_ranks(base)
    if nccl and dist.distributed_c10d._get_default_group().bound_device_id is not None:
        group = dist.split_group(parent_pg=base, split_ranks=[list(range(len(ranks)))], pg_options=options)
    else:
        if nccl:
            backend = "nccl"  # of a group that has one backend for each kind of device
        group = dist.new_group(ranks, backend=backend, pg_options=options, use_local_synchronization=True)
    first = torch.zeros(1, device=torch.device("cuda", torch.cuda.current_device()) if nccl else "cpu")
    dist.all_reduce(first, group=group)  # NCCL connects at the first collective, which takes a while
    return group


def settle(asked: list[Communicators], ways: Ways) -> None:
    """Make all that were asked for before training began, on every rank in the same order, and follow the plan."""
    if not asked:
        ways.unasked()
        return
    until_s = monotonic() + waiting_s()
    agreed = [one.make(ways, until_s) for one in asked]  # every one of them, whatever the others gave
    ways.follow(all(agreed))
