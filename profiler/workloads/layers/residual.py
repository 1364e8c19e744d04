"""The sum of a block's input and output: the same work forward (activations) and backward (gradients)."""

from collections.abc import Callable

from energyopt.profiler.workloads.interface import Kernel, Place
from energyopt.profiler.workloads.layers.kernels import compute_kernel, normal
from energyopt.profiler.workloads.layers.sizes import Sizes


def residual_add(sizes: Sizes) -> Kernel:
    """`residual_add`: two tensors read, one written."""
    elements = sizes.rows * sizes.hidden

    def build(place: Place) -> Callable[[], object]:
        left, right = (normal(place, sizes.rows, sizes.hidden) for _ in range(2))
        out = place.torch.empty_like(left)
        return lambda: place.torch.add(left, right, out=out)

    return compute_kernel(
        "residual_add",
        sizes,
        flops=elements,
        memory_bytes=3 * elements * sizes.element_bytes,
        build=build,
    )
