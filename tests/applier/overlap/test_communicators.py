"""What torch is asked for on GPUs, where the tests have none; on CPUs two real ranks show it (test_layers)."""

from types import SimpleNamespace
from typing import Any

import pytest

from energyopt.applier.overlap import communicators
from energyopt.applier.overlap.communicators import Communicators, bounded_options
from energyopt.applier.overlap.consent import all_agree
from energyopt.applier.overlap.ways import NOTHING_PLANNED

torch = pytest.importorskip("torch", reason="needs torch: pip install energyopt[torch]")
dist = torch.distributed

UNSET = -(2**31)  # NCCL_CONFIG_UNDEF_INT


class Gpus:
    """Stands in for torch.distributed on eight GPUs, of which the group has the two neighbours 2 and 3."""

    def __init__(self, patch: pytest.MonkeyPatch, least: int) -> None:
        self.made: list[tuple[str, dict[str, Any]]] = []
        self.default = SimpleNamespace(bound_device_id=None)
        config = SimpleNamespace(min_ctas=least, max_ctas=UNSET)
        options = SimpleNamespace(Options=lambda: SimpleNamespace(config=SimpleNamespace(**vars(config))))
        patch.setattr(dist, "ProcessGroupNCCL", options, raising=False)
        patch.setattr(dist, "get_backend", lambda _group: "nccl")
        patch.setattr(dist, "get_process_group_ranks", lambda _group: [2, 3])
        patch.setattr(dist, "new_group", lambda ranks, **how: self.note("new", how | {"ranks": ranks}))
        patch.setattr(dist, "split_group", lambda **how: self.note("split", how))
        patch.setattr(dist, "all_reduce", lambda _tensor, group: self.note("used", {"group": group}))
        patch.setattr(dist.distributed_c10d, "_get_default_group", lambda: self.default)
        patch.setattr(torch.cuda, "current_device", lambda: 3)
        patch.setattr(torch, "zeros", lambda _count, device: SimpleNamespace(device=device))

    def note(self, what: str, how: dict[str, Any]) -> str:
        self.made.append((what, how))
        return f"group {len(self.made)}"


@pytest.mark.parametrize(("least", "set_to"), [(UNSET, 1), (0, 1), (4, 4), (32, 12)])
def test_the_bound_of_a_communicator(monkeypatch: pytest.MonkeyPatch, least: int, set_to: int) -> None:
    """NCCL refuses a least count above the largest."""
    Gpus(monkeypatch, least)
    config = bounded_options(12).config
    assert (config.max_ctas, config.min_ctas) == (12, set_to)


def test_only_its_own_ranks_make_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = Gpus(monkeypatch, UNSET)
    assert communicators._bounded_group("tensor", 12) == "group 1"
    (new, how), (used, first) = gpus.made
    assert (new, used) == ("new", "used")
    assert how["ranks"] == [2, 3]
    assert how["backend"] == "nccl"
    assert how["use_local_synchronization"]
    assert how["pg_options"].config.max_ctas == 12
    assert first["group"] == "group 1"


def test_where_the_default_group_is_bound_to_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """There torch would split the default group, which those who do not call would hold up for ever."""
    gpus = Gpus(monkeypatch, UNSET)
    gpus.default.bound_device_id = torch.device("cuda", 3)
    assert communicators._bounded_group("tensor", 12) == "group 1"
    (split, how), _ = gpus.made
    assert split == "split"
    assert how["parent_pg"] == "tensor"
    assert how["split_ranks"] == [[0, 1]]  # as the group itself counts them
    assert how["pg_options"].config.max_ctas == 12


def test_a_process_on_its_own() -> None:
    alone = Communicators()
    assert alone.size == 1
    assert not alone.make(NOTHING_PLANNED)
    assert all_agree("anything", "yes")
    assert not all_agree("anything", None)
