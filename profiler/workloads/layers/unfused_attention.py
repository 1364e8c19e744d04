"""Attention's core as separate kernels: scores, softmax, values, each of which computes the masked half too.

With b sequences, a heads of d, q queries and k keys, the two products take 2 b a q k d operations each and twice
that in the backward; the scores pass through memory between the kernels.
"""

from collections.abc import Callable
from typing import Any

from energyopt.profiler.workloads.interface import Kernel, Place, Prepare
from energyopt.profiler.workloads.layers.kernels import compute_kernel, gradient_of, normal
from energyopt.profiler.workloads.layers.sizes import Sizes

_SOFTMAX_FLOPS = 6  # scale, mask, largest, exponential, sum, quotient
_SOFTMAX_BACKWARD_FLOPS = 5


def unfused_attention(sizes: Sizes) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...]]:
    """Forward kernels in order and backward kernels in order."""
    scores, values, softmax = _scores(sizes), _values(sizes), _softmax(sizes)
    return (scores[0], softmax[0], values[0]), (values[1], softmax[1], scores[1])


def _scores(sizes: Sizes) -> tuple[Kernel, Kernel]:
    def inputs(place: Place) -> list[Any]:
        return [_query(place, sizes), _key(place, sizes)]

    return _products("attention_scores", sizes, inputs, lambda query, key: query @ key.transpose(1, 2))


def _values(sizes: Sizes) -> tuple[Kernel, Kernel]:
    def inputs(place: Place) -> list[Any]:
        return [_square(place, sizes).softmax(-1), _key(place, sizes)]

    return _products("attention_values", sizes, inputs, lambda weights, value: weights @ value)


def _products(
    name: str, sizes: Sizes, inputs: Callable[[Place], list[Any]], product: Callable[..., Any]
) -> tuple[Kernel, Kernel]:
    """A batched product and its two gradients; both move scores, queries (or outputs) and keys (or values)."""
    scores = sizes.batch * sizes.heads * sizes.queries * sizes.keys
    flops = 2 * scores * sizes.head_dim
    head_rows = sizes.heads * sizes.queries + sizes.kv_heads * sizes.keys
    memory_bytes = (scores + sizes.batch * head_rows * sizes.head_dim) * sizes.element_bytes

    def forward(place: Place) -> Callable[[], object]:
        tensors = inputs(place)
        return lambda: product(*tensors)

    def backward(place: Place) -> Callable[[], object]:
        return gradient_of(place, product, inputs(place))

    return (
        compute_kernel(name, sizes, flops=flops, memory_bytes=memory_bytes, build=forward, matrix=True),
        compute_kernel(
            f"{name}.backward",
            sizes,
            flops=2 * flops,
            memory_bytes=_backward_bytes(name, sizes, memory_bytes),
            build=backward,
            matrix=True,
            launches=2,
        ),
    )


def _backward_bytes(name: str, sizes: Sizes, memory_bytes: int) -> int:
    """Inputs are read and their gradients written, so twice; the output's gradient is read once."""
    scores = sizes.batch * sizes.heads * sizes.queries * sizes.keys
    outputs = sizes.batch * sizes.heads * sizes.queries * sizes.head_dim
    result = scores if name == "attention_scores" else outputs
    return 2 * memory_bytes - result * sizes.element_bytes


def _softmax(sizes: Sizes) -> tuple[Kernel, Kernel]:
    scores = sizes.batch * sizes.heads * sizes.queries * sizes.keys

    def apply(place: Place, mask: Any, square: Any) -> Any:
        shaped = square.view(sizes.batch * sizes.heads, sizes.queries, sizes.keys)
        return place.torch.add(mask, shaped, alpha=sizes.head_dim**-0.5).softmax(-1)

    def forward(place: Place) -> Callable[[], object]:
        mask, square = _mask(place, sizes), _square(place, sizes)
        return lambda: apply(place, mask, square)

    def backward(place: Place) -> Callable[[], object]:
        mask = _mask(place, sizes)
        return gradient_of(place, lambda square: apply(place, mask, square), [_square(place, sizes)])

    def kernel(name: str, flops: int, passes: int, build: Prepare) -> Kernel:
        bytes_moved = passes * scores * sizes.element_bytes
        return compute_kernel(
            name, sizes, flops=flops * scores, memory_bytes=bytes_moved, build=build, launches=2
        )

    return (
        kernel("attention_softmax", _SOFTMAX_FLOPS, 2, forward),
        kernel("attention_softmax.backward", _SOFTMAX_BACKWARD_FLOPS, 3, backward),
    )


def _grouped_rows(sizes: Sizes) -> int:
    """Queries of all heads that share a key head: they are rows of one product."""
    return sizes.heads // sizes.kv_heads * sizes.queries


def _query(place: Place, sizes: Sizes) -> Any:
    return normal(place, sizes.batch * sizes.kv_heads, _grouped_rows(sizes), sizes.head_dim)


def _key(place: Place, sizes: Sizes) -> Any:
    return normal(place, sizes.batch * sizes.kv_heads, sizes.keys, sizes.head_dim)


def _square(place: Place, sizes: Sizes) -> Any:
    return normal(place, sizes.batch * sizes.kv_heads, _grouped_rows(sizes), sizes.keys)


def _mask(place: Place, sizes: Sizes) -> Any:
    """0 where a query may look and minus infinity behind it; the last query sees every key."""
    torch = place.torch
    blocked = torch.full((sizes.queries, sizes.keys), float("-inf"), device=place.device, dtype=place.dtype)
    return blocked.triu(1 + sizes.keys - sizes.queries)
