import inspect
from collections import defaultdict
from types import SimpleNamespace

import pytest

from energyopt.profiler.distributed.groups import _options, members_of

NCCL_UNDEFINED = -(2**31)  # NCCL_CONFIG_UNDEF_INT of nccl.h


@pytest.mark.parametrize(
    ("tensor", "context", "data", "stages"), [(2, 2, 2, 2), (4, 2, 1, 2), (1, 4, 2, 1), (8, 1, 2, 2)]
)
def test_groups_are_megatrons(tensor: int, context: int, data: int, stages: int) -> None:
    """Its order tp-cp-dp-pp numbers ranks with the tensor degree fastest; a group shares all other coordinates."""
    found: dict[str, dict[tuple[int, ...], list[int]]] = {
        "tensor": defaultdict(list),
        "context": defaultdict(list),
        "data": defaultdict(list),
    }
    for p in range(stages):
        for d in range(data):
            for c in range(context):
                for t in range(tensor):
                    rank = t + tensor * (c + context * (d + data * p))
                    found["tensor"][c, d, p].append(rank)
                    found["context"][t, d, p].append(rank)
                    found["data"][t, c, p].append(rank)
    size = tensor * context * data * stages
    for name, ranks in (("tensor", tensor), ("context", context), ("data", data)):
        groups = members_of(name, ranks, size, tensor * context)
        assert sorted(groups) == sorted(tuple(one) for one in found[name].values())


def test_on_cpus_the_number_of_sms_means_nothing() -> None:
    assert _options(8, cuda=False) == _options(None, cuda=False) == {"backend": "gloo"}


def test_on_gpus_it_bounds_nccls_thread_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in where torch is built without NCCL; the names are those of torch's own type declarations."""
    dist = pytest.importorskip("torch").distributed

    class Options:
        def __init__(self) -> None:
            self.config = SimpleNamespace(min_ctas=NCCL_UNDEFINED, max_ctas=NCCL_UNDEFINED)

    if not hasattr(dist, "ProcessGroupNCCL"):
        stand_in = SimpleNamespace(Options=Options)
        monkeypatch.setattr(dist, "ProcessGroupNCCL", stand_in, raising=False)
    found = _options(8, cuda=True)
    assert found["backend"] == "nccl"
    config = found["pg_options"].config
    assert (config.min_ctas, config.max_ctas) == (1, 8)
    assert set(found) <= set(inspect.signature(dist.new_group).parameters)
    assert _options(None, cuda=True) == {"backend": "nccl"}
