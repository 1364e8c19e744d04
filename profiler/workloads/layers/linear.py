"""Linear layers: the forward product and the two of the backward, each a kernel of its own."""

from collections.abc import Callable
from typing import NamedTuple

from energyopt.profiler.workloads.interface import Kernel, Place
from energyopt.profiler.workloads.layers.kernels import compute_kernel, normal
from energyopt.profiler.workloads.layers.sizes import Sizes

_WEIGHT_SCALE = 0.02


class Linear(NamedTuple):
    """Output, gradient of the input, gradient of the weight."""

    forward: Kernel
    dgrad: Kernel
    wgrad: Kernel


def linear(name: str, sizes: Sizes, *, inputs: int, outputs: int) -> Linear:
    """The kernels of [tokens, inputs] x [inputs, outputs]: 2 x tokens x inputs x outputs operations each.

    The weight's gradient is added to what earlier microbatches left, so that it is read as well as written.
    """
    flops = 2 * sizes.tokens * inputs * outputs
    weight = inputs * outputs
    activations = sizes.tokens * (inputs + outputs)

    def one(suffix: str, elements: int, build: Callable[[Place], Callable[[], object]]) -> Kernel:
        bytes_moved = elements * sizes.element_bytes
        return compute_kernel(
            name + suffix, sizes, flops=flops, memory_bytes=bytes_moved, build=build, matrix=True
        )

    def forward(place: Place) -> Callable[[], object]:
        x, w = normal(place, sizes.tokens, inputs), normal(place, outputs, inputs, scale=_WEIGHT_SCALE)
        out = place.torch.empty(sizes.tokens, outputs, device=place.device, dtype=place.dtype)
        return lambda: place.torch.mm(x, w.t(), out=out)

    def dgrad(place: Place) -> Callable[[], object]:
        dy, w = normal(place, sizes.tokens, outputs), normal(place, outputs, inputs, scale=_WEIGHT_SCALE)
        out = place.torch.empty(sizes.tokens, inputs, device=place.device, dtype=place.dtype)
        return lambda: place.torch.mm(dy, w, out=out)

    def wgrad(place: Place) -> Callable[[], object]:
        dy, x = normal(place, sizes.tokens, outputs), normal(place, sizes.tokens, inputs)
        total = normal(place, outputs, inputs)
        # half of the earlier sum: read like the whole, but bounded however often this repeats
        return lambda: place.torch.addmm(total, dy.t(), x, beta=0.5, out=total)

    return Linear(
        one("", activations + weight, forward),
        one(".dgrad", activations + weight, dgrad),
        one(".wgrad", activations + 2 * weight, wgrad),
    )
