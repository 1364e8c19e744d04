"""Token embeddings, and the sum with learned positions."""

from collections.abc import Callable
from typing import Any

from energyopt.profiler.workloads.interface import Kernel, Place
from energyopt.profiler.workloads.layers.kernels import (
    INDEX_BYTES,
    compute_kernel,
    gradient_of,
    indices,
    normal,
)
from energyopt.profiler.workloads.layers.sizes import Sizes


def embeddings(sizes: Sizes) -> tuple[Kernel, Kernel]:
    """`embedding` gathers a row per token; `embedding.backward` fills the dense gradient of the table."""
    elements = sizes.tokens * sizes.hidden
    index_bytes = sizes.tokens * INDEX_BYTES

    def forward(place: Place) -> Callable[[], object]:
        table, tokens = _table(place, sizes)
        return lambda: place.torch.nn.functional.embedding(tokens, table)

    def backward(place: Place) -> Callable[[], object]:
        table, tokens = _table(place, sizes)
        return gradient_of(place, lambda leaf: place.torch.nn.functional.embedding(tokens, leaf), [table])

    written = sizes.vocabulary * sizes.hidden
    return (
        compute_kernel(
            "embedding",
            sizes,
            flops=0,
            memory_bytes=2 * elements * sizes.element_bytes + index_bytes,
            build=forward,
        ),
        compute_kernel(
            "embedding.backward",
            sizes,
            flops=elements,
            memory_bytes=(elements + written) * sizes.element_bytes + index_bytes,
            build=backward,
            launches=2,
        ),
    )


def position_adds(sizes: Sizes) -> tuple[Kernel, Kernel]:
    """`position_add`, and `position_add.backward`, which sums gradients over the sequences."""
    elements = sizes.rows * sizes.hidden
    table = elements // sizes.batch

    def forward(place: Place) -> Callable[[], object]:
        x, positions = _sequences(place, sizes), _sequences(place, sizes)[0]
        return lambda: x + positions

    def backward(place: Place) -> Callable[[], object]:
        gradient = _sequences(place, sizes)
        return lambda: gradient.sum(0)

    return (
        compute_kernel(
            "position_add",
            sizes,
            flops=elements,
            memory_bytes=(2 * elements + table) * sizes.element_bytes,
            build=forward,
        ),
        compute_kernel(
            "position_add.backward",
            sizes,
            flops=elements,
            memory_bytes=(elements + table) * sizes.element_bytes,
            build=backward,
        ),
    )


def _table(place: Place, sizes: Sizes) -> tuple[Any, Any]:
    return normal(place, sizes.vocabulary, sizes.hidden), indices(place, sizes.tokens, sizes.vocabulary)


def _sequences(place: Place, sizes: Sizes) -> Any:
    return normal(place, sizes.batch, sizes.rows // sizes.batch, sizes.hidden)
