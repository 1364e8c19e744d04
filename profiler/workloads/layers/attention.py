"""Attention's core as one kernel, `scaled_dot_product_attention`.

Causal attention is counted at half of the full square, as a kernel that skips masked blocks computes it (the
convention of Dao 2023, which leaves the diagonal out): with b sequences, a heads of d, q queries and k keys,

    forward   2 products: 4 b a q k d / 2          backward   5 products: 10 b a q k d / 2

the fifth of which recomputes the scores. The forward reads q, k, v and writes the output; the backward reads
those five with the output's gradient and writes three gradients. The softmax statistics are left out.

With context parallelism a rank's queries come from an early and a late piece of the sequence and meet half of
the keys on average; that is run as full attention over half of the keys: the same work without a mask.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from energyopt.profiler.workloads.interface import Kernel, Place
from energyopt.profiler.workloads.layers.kernels import compute_kernel, gradient_of, normal
from energyopt.profiler.workloads.layers.sizes import Sizes


def fused_attention(sizes: Sizes) -> tuple[Kernel, Kernel]:
    """`attention` and `attention.backward`."""
    product = 2 * sizes.batch * sizes.heads * sizes.queries * sizes.keys * sizes.head_dim / 2
    query = sizes.batch * sizes.queries * sizes.heads * sizes.head_dim
    keys_and_values = 2 * sizes.batch * sizes.keys * sizes.kv_heads * sizes.head_dim

    def forward(place: Place) -> Callable[[], object]:
        return partial(_attend, place, sizes, *_inputs(place, sizes))

    def backward(place: Place) -> Callable[[], object]:
        return gradient_of(place, partial(_attend, place, sizes), _inputs(place, sizes))

    return (
        compute_kernel(
            "attention",
            sizes,
            flops=2 * product,
            memory_bytes=(2 * query + keys_and_values) * sizes.element_bytes,
            build=forward,
            matrix=True,
        ),
        compute_kernel(
            "attention.backward",
            sizes,
            flops=5 * product,
            memory_bytes=(4 * query + 2 * keys_and_values) * sizes.element_bytes,
            build=backward,
            matrix=True,
            launches=3,
        ),
    )


def _inputs(place: Place, sizes: Sizes) -> list[Any]:
    keys = sizes.keys if _causal(sizes) else sizes.keys // 2
    shapes = ((sizes.queries, sizes.heads), (keys, sizes.kv_heads), (keys, sizes.kv_heads))
    return [normal(place, sizes.batch, *shape, sizes.head_dim).transpose(1, 2) for shape in shapes]


def _attend(place: Place, sizes: Sizes, query: Any, key: Any, value: Any) -> Any:
    return place.torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=_causal(sizes), enable_gqa=sizes.kv_heads < sizes.heads
    )


def _causal(sizes: Sizes) -> bool:
    return sizes.queries == sizes.keys
