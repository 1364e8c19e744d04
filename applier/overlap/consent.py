"""Whether all ranks of a run can do something together, decided once and for all of them."""

from datetime import timedelta

from energyopt.applier.runtime.ranks import started_torch

LIMIT_S = 60.0
"""How long the others may take, at most, to come to where they say so."""


def waiting_s() -> float:
    """How long to wait for the others: well below the timeout of collectives, in which they may wait meanwhile."""
    torch = started_torch()
    if torch is None:
        return LIMIT_S
    try:
        group = torch.distributed.distributed_c10d._get_default_group()
        limits = [group._get_backend(device).options._timeout for device in group._device_types]
    except Exception:  # a backend of another kind, which does not say
        limits = []
    return min(LIMIT_S, *(float(one.total_seconds()) / 4 for one in limits), LIMIT_S)


def all_agree(topic: str, mine: str | None, limit_s: float = LIMIT_S, ranks: int | None = None) -> bool:
    """Whether every rank says the same; what one rank gets, all get.

    Ranks say it in the store of torch.distributed, and not by a collective: one that cannot take part says so in
    passing and goes on. The store holds the one decision, so that not even a rank that comes too late can read
    another one than the rest.

    Args:
        topic: one of its own for each question, the same on all ranks.
        mine: what this rank says; None for no.
        limit_s: after so many seconds the answer is no.
        ranks: how many are asked; None for all of the run.
    """
    torch = started_torch()
    if torch is None:
        return mine is not None
    distributed = torch.distributed
    store = distributed.PrefixStore(
        f"energyopt/consent/{topic}", distributed.distributed_c10d._get_default_store()
    )
    if mine is None or store.compare_set("said", "", mine) != mine.encode():
        store.compare_set("decision", "", "no")
        return False
    if store.add("ranks", 1) == (distributed.get_world_size() if ranks is None else ranks):
        store.compare_set("decision", "", "yes")
    try:
        store.wait(["decision"], timedelta(seconds=max(limit_s, 0.001)))  # 0 would be for ever
    except RuntimeError:  # too late; torch.distributed.DistStoreError is one
        store.compare_set("decision", "", "no")
    return bool(store.get("decision") == b"yes")
