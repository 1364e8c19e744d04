"""The kernels' torch code on a CPU: it runs, gives what it should, and does the operations that are counted."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from energyopt.profiler.benches.torch_bench import TorchPlace
from energyopt.profiler.workloads.architecture import Activation, Norm, Position
from energyopt.profiler.workloads.interface import Collective, Communication, Kernel, Workload
from energyopt.profiler.workloads.layers.communication import communication_kernel
from energyopt.profiler.workloads.layers.kernels import beyond_cache

torch = pytest.importorskip("torch")
flop_counter = pytest.importorskip("torch.utils.flop_counter")

Build = Callable[..., Workload]
GPT = {"position": Position.LEARNED, "max_position_embeddings": 64, "gated_mlp": False, "norm": Norm.LAYER}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Tensors this small are not worth waking other threads for, least of all where tests run in parallel."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _place(dtype: str = "float32") -> TorchPlace:
    return TorchPlace(torch=torch, device=torch.device("cpu"), dtype=getattr(torch, dtype))


def _run(kernel: Kernel, place: TorchPlace) -> Any:
    assert kernel.prepare is not None
    return kernel.prepare(place)()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("attention", ["fused", "unfused"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"qk_norm": True, "num_key_value_heads": 4, "hidden_act": Activation.RELU},
        GPT | {"hidden_act": Activation.GELU},
    ],
)
def test_every_kernel_runs_and_gives_finite_numbers(
    workload: Build, dtype: str, attention: str, changes: dict[str, Any]
) -> None:
    built = workload(changes, dtype=dtype, attention=attention, recompute="full", split_backward=True)
    for kernel in built.kernels():
        found = _run(kernel, _place(dtype))
        for tensor in found if isinstance(found, tuple) else (found,):
            assert torch.isfinite(tensor).all(), kernel.name


@pytest.mark.parametrize("degrees", [(2, 1), (1, 2), (2, 2)])
def test_a_rank_of_several_computes_its_share(workload: Build, degrees: tuple[int, int]) -> None:
    tensor, context = degrees
    for attention in ("fused", "unfused"):
        built = workload(
            tensor_parallel=tensor, context_parallel=context, dtype="float32", attention=attention
        )
        for kernel in built.kernels():
            if kernel.communication is None:
                _run(kernel, _place())


def test_outputs_have_the_shapes_of_a_layer(workload: Build) -> None:
    """2 sequences of 64 tokens, hidden 32, 4 heads and 2 key heads of 16, MLP of 48, vocabulary 200 -> 256."""
    kernels = {one.name: one for one in workload({"qk_norm": True}, dtype="float32").kernels()}
    shapes = {
        "embedding": (128, 32),
        "norm": (128, 32),
        "qkv_proj": (128, 128),
        "qk_norm": (128 * 6, 16),
        "rope": (2, 64, 6, 16),
        "attention": (2, 4, 64, 16),
        "out_proj": (128, 32),
        "gate_up_proj": (128, 96),
        "activation": (128, 48),
        "down_proj": (128, 32),
        "output_head": (128, 256),
        "qkv_proj.dgrad": (128, 32),
        "qkv_proj.wgrad": (128, 32),
        "down_proj.wgrad": (32, 48),
        "loss": (),
    }
    for name, shape in shapes.items():
        assert tuple(_run(kernels[name], _place()).shape) == shape, name


@pytest.mark.parametrize("changes", [{}, GPT])
def test_products_count_the_operations_that_torch_counts(workload: Build, changes: dict[str, Any]) -> None:
    built = workload(changes, dtype="float32", attention="unfused")
    counted = 0
    for kernel in built.kernels():
        assert kernel.prepare is not None
        step = kernel.prepare(_place())
        with flop_counter.FlopCounterMode(display=False) as counter:
            step()
        assert counter.get_total_flops() == (kernel.flops if kernel.matrix else 0), kernel.name
        counted += kernel.matrix
    assert counted == 3 * 5 + 2 * 2  # five linear layers, two products of the attention


def test_fused_attention_counts_half_of_what_torch_counts_without_a_mask(workload: Build) -> None:
    kernels = {one.name: one for one in workload(dtype="float32").kernels()}
    query, key = (2, 4, 64, 16), (2, 4, 64, 16)
    whole = flop_counter.sdpa_flop_count(query, key, key)
    assert kernels["attention"].flops == whole / 2
    whole_backward = flop_counter.sdpa_backward_flop_count(query, query, key, key)
    assert kernels["attention.backward"].flops == whole_backward / 2


def test_linear_layers_move_their_operands_once(workload: Build) -> None:
    kernels = {one.name: one for one in workload(dtype="bfloat16").kernels()}
    assert kernels["qkv_proj"].memory_bytes == 2 * (128 * 32 + 32 * 128 + 128 * 128)
    assert kernels["qkv_proj.dgrad"].memory_bytes == kernels["qkv_proj"].memory_bytes
    assert kernels["qkv_proj.wgrad"].memory_bytes == kernels["qkv_proj"].memory_bytes + 2 * 32 * 128
    assert kernels["attention"].memory_bytes == 2 * 2 * 64 * 16 * (4 + 2 + 2 + 4)
    assert kernels["residual_add"].memory_bytes == 2 * 3 * 128 * 32


def test_rotation_keeps_lengths_and_leaves_position_0(
    workload: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    drawn = torch.randn

    def remember(*shape: int, **settings: Any) -> Any:
        given.append(drawn(*shape, **settings))
        return given[-1]

    monkeypatch.setattr(torch, "randn", remember)
    kernels = {one.name: one for one in workload(dtype="float32").kernels()}
    turned = _run(kernels["rope"], _place())
    torch.testing.assert_close(turned.norm(dim=-1), given[0].norm(dim=-1))
    torch.testing.assert_close(turned[:, 0], given[0][:, 0])
    assert not torch.allclose(turned[:, 1], given[0][:, 1])


def test_unfused_attention_agrees_with_fused(workload: Build) -> None:
    """The mask lets each query look at itself and before, wherever heads share keys."""
    kernels = {one.name: one for one in workload(dtype="float32", attention="unfused").kernels()}
    weights = _run(kernels["attention_softmax"], _place())
    assert tuple(weights.shape) == (2 * 4, 64, 64)
    torch.testing.assert_close(weights.sum(-1), torch.ones(8, 64))
    assert (weights.triu(1) == 0).all()
    assert (weights.diagonal(dim1=1, dim2=2) > 0).all()


def test_weight_gradients_stay_bounded_however_often_they_are_added(workload: Build) -> None:
    kernels = {one.name: one for one in workload(dtype="float16").kernels()}
    prepare = kernels["out_proj.wgrad"].prepare
    assert prepare is not None
    step = prepare(_place("float16"))
    for _ in range(2000):
        total: Any = step()
    assert torch.isfinite(total).all()


class _Cuda:
    """Stands for a place on a GPU whose L2 cache holds a million bytes."""

    type = "cuda"
    L2_cache_size = 1_000_000

    def get_device_properties(self, _: object) -> "_Cuda":
        return self


@pytest.mark.parametrize(("memory_bytes", "copies"), [(4e6, 1), (2e6, 1), (1.5e6, 2), (1e5, 20), (10.0, 64)])
def test_repeats_cycle_through_twice_the_cache(memory_bytes: float, copies: int) -> None:
    cuda = _Cuda()
    place: Any = type("Place", (), {"device": cuda, "torch": type("Torch", (), {"cuda": cuda})})
    made: list[int] = []

    def build(_: object) -> Callable[[], int]:
        number = len(made)
        made.append(number)
        return lambda: number

    step = beyond_cache(build, memory_bytes)(place)
    assert [step() for _ in range(2 * copies)] == 2 * list(range(copies))


@pytest.fixture
def alone(tmp_path: Path) -> Any:
    """A process group of this process alone."""
    distributed = torch.distributed
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'meet'}", rank=0, world_size=1)
    yield lambda _: distributed.group.WORLD
    distributed.destroy_process_group()


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
def test_collectives_run_on_the_group_that_the_place_gives(alone: Any, collective: str) -> None:
    communication = Communication(
        collective=Collective(collective), message_bytes=4096.0, group="tensor", ranks=1
    )
    kernel = communication_kernel("exchange", communication, "float32")
    place = TorchPlace(torch=torch, device=torch.device("cpu"), dtype=torch.float32, groups=alone)
    assert kernel.prepare is not None
    step = kernel.prepare(place)
    for _ in range(300):  # a growing sum would leave the numbers
        step()
    assert math.isclose(kernel.memory_bytes, 8192.0)
