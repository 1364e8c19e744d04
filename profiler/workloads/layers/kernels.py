"""How the kernels here are made: their costs, their random data, and repeated runs that do not live in the cache.

Data are normal random numbers: the power of a matrix unit depends on how many bits flip, and zeros would
draw far less than training does (Bhalachandra et al. 2022, on input entropy). Elementwise operations count one per
element and arithmetic step of the formula, a transcendental function as one; they decide nothing, since such
kernels are bound by memory.
"""

import math
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

from energyopt.profiler.workloads.interface import Kernel, Place, Prepare
from energyopt.profiler.workloads.layers.sizes import Sizes

_MOST_COPIES = 64
INDEX_BYTES = 8  # token numbers are int64


def compute_kernel(
    name: str,
    sizes: Sizes,
    *,
    flops: float,
    memory_bytes: float,
    build: Prepare,
    matrix: bool = False,
    launches: int = 1,
) -> Kernel:
    """A compute kernel whose repeats cycle through copies of its data, see `beyond_cache`."""
    return Kernel(
        name=name,
        flops=float(flops),
        memory_bytes=float(memory_bytes),
        matrix=matrix,
        launches=launches,
        dtype=sizes.dtype,
        prepare=beyond_cache(build, memory_bytes),
    )


def beyond_cache(build: Prepare, memory_bytes: float) -> Prepare:
    """Run on as many copies of the data in turn as fill a GPU's L2 cache twice.

    One small set of tensors would stay in the cache from repeat to repeat, where training finds at least its
    weights evicted. At most 64 copies; one on a CPU.
    """

    def prepare(place: Place) -> Callable[[], object]:
        copies = _copies(place, memory_bytes)
        if copies == 1:
            return build(place)
        turns = cycle([build(place) for _ in range(copies)])

        def run() -> object:
            return next(turns)()

        return run

    return prepare


def normal(place: Place, *shape: int, scale: float = 1.0) -> Any:
    """A tensor of normal random numbers."""
    return place.torch.randn(*shape, device=place.device, dtype=place.dtype).mul_(scale)


def indices(place: Place, count: int, below: int) -> Any:
    """Random token numbers."""
    return place.torch.randint(below, (count,), device=place.device)


def gradient_of(
    place: Place, forward: Callable[..., Any], inputs: Sequence[Any]
) -> Callable[[], tuple[Any, ...]]:
    """What runs the backward of `forward(*inputs)` alone: the graph is made once, here, and kept."""
    torch = place.torch
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in inputs]
        output = forward(*leaves)
    upstream = torch.randn_like(output)

    def run() -> tuple[Any, ...]:
        gradients: tuple[Any, ...] = torch.autograd.grad(output, leaves, upstream, retain_graph=True)
        return gradients

    return run


def _copies(place: Place, memory_bytes: float) -> int:
    if place.device.type != "cuda":
        return 1
    cache_bytes: int = place.torch.cuda.get_device_properties(place.device).L2_cache_size
    return max(1, min(_MOST_COPIES, math.ceil(2 * cache_bytes / memory_bytes)))
