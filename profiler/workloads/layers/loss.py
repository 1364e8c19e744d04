"""Cross-entropy over the vocabulary, computed in float32 as training does.

With tensor parallelism the three all-reduces of a number per token are left out: they are thousands of times
smaller than those of a layer.
"""

from collections.abc import Callable
from functools import partial
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

_FORWARD_FLOPS = 4  # per logit: largest, difference, exponential, sum
_BACKWARD_FLOPS = 3
_LAUNCHES = 3


def losses(sizes: Sizes) -> tuple[Kernel, Kernel]:
    """`loss` reads the logits; `loss.backward` reads them again and writes their gradient."""
    elements = sizes.tokens * sizes.vocabulary
    index_bytes = sizes.tokens * INDEX_BYTES

    def forward(place: Place) -> Callable[[], object]:
        return partial(_loss, place, _targets(place, sizes), _logits(place, sizes))

    def backward(place: Place) -> Callable[[], object]:
        return gradient_of(place, partial(_loss, place, _targets(place, sizes)), [_logits(place, sizes)])

    def kernel(name: str, flops: int, passes: int, build: Callable[[Place], Callable[[], object]]) -> Kernel:
        return compute_kernel(
            name,
            sizes,
            flops=flops * elements,
            memory_bytes=passes * elements * sizes.element_bytes + index_bytes,
            build=build,
            launches=_LAUNCHES,
        )

    return kernel("loss", _FORWARD_FLOPS, 1, forward), kernel("loss.backward", _BACKWARD_FLOPS, 2, backward)


def _loss(place: Place, targets: Any, logits: Any) -> Any:
    return place.torch.nn.functional.cross_entropy(logits.float(), targets)


def _logits(place: Place, sizes: Sizes) -> Any:
    return normal(place, sizes.tokens, sizes.vocabulary)


def _targets(place: Place, sizes: Sizes) -> Any:
    return indices(place, sizes.tokens, sizes.vocabulary)
