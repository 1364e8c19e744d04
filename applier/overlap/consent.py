"""Whether all ranks of a run can do something together, decided once and for all of them."""

from datetime import timedelta

from energyopt.applier.runtime.ranks import started_torch

LIMIT_S = 600.0
"""How long the others may take to come to where they say so: building a model, reading a checkpoint."""


def all_agree(topic: str, mine: str | None, limit_s: float = LIMIT_S) -> bool:
    """Whether every rank says the same; what one rank gets, all get.

    Ranks say it in the store of torch.distributed, and not by a collective: one that cannot take part says so in
    passing and goes on. The store holds the one decision, so that not even a rank that comes too late can read
    another one than the rest.

    Args:
        topic: one of its own for each question, the same on all ranks.
        mine: what this rank says; None for no.
        limit_s: after so many seconds the answer is no.
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
    if store.add("ranks", 1) == distributed.get_world_size():
        store.compare_set("decision", "", "yes")
    try:
        store.wait(["decision"], timedelta(seconds=limit_s))
    except RuntimeError:  # too late; torch.distributed.DistStoreError is one
        store.compare_set("decision", "", "no")
    return bool(store.get("decision") == b"yes")
