"""Rotary positions: queries and keys turned by an angle that grows with the position (Su et al. 2021)."""

from collections.abc import Callable
from typing import Any

from energyopt.profiler.workloads.interface import Kernel, Place
from energyopt.profiler.workloads.layers.kernels import compute_kernel, gradient_of, normal
from energyopt.profiler.workloads.layers.sizes import Sizes

_BASE = 10_000.0
_FLOPS = 3  # two products and a sum per element
_LAUNCHES = 3


def rope(sizes: Sizes) -> tuple[Kernel, Kernel]:
    """`rope` and `rope.backward`: all heads of queries and keys, read once and written once."""
    elements = sizes.tokens * (sizes.heads + sizes.kv_heads) * sizes.head_dim
    memory_bytes = 2 * elements * sizes.element_bytes

    def forward(place: Place) -> Callable[[], object]:
        x, (cosine, sine) = _heads(place, sizes), _angles(place, sizes)
        return lambda: _rotate(place, x, cosine, sine)

    def backward(place: Place) -> Callable[[], object]:
        x, (cosine, sine) = _heads(place, sizes), _angles(place, sizes)
        return gradient_of(place, lambda leaf: _rotate(place, leaf, cosine, sine), [x])

    def kernel(name: str, build: Callable[[Place], Callable[[], object]]) -> Kernel:
        return compute_kernel(
            name,
            sizes,
            flops=_FLOPS * elements,
            memory_bytes=memory_bytes,
            build=build,
            launches=_LAUNCHES,
        )

    return kernel("rope", forward), kernel("rope.backward", backward)


def _heads(place: Place, sizes: Sizes) -> Any:
    return normal(place, sizes.batch, sizes.queries, sizes.heads + sizes.kv_heads, sizes.head_dim)


def _angles(place: Place, sizes: Sizes) -> tuple[Any, Any]:
    """Cosines, and sines that carry the sign of the half they multiply."""
    torch, half = place.torch, sizes.head_dim // 2
    frequency = _BASE ** -(torch.arange(half, device=place.device) / half)
    angle = torch.arange(sizes.queries, device=place.device)[:, None] * frequency
    sine = torch.cat((-angle.sin(), angle.sin()), dim=-1)[:, None].to(place.dtype)
    return torch.cat((angle, angle), dim=-1).cos()[:, None].to(place.dtype), sine


def _rotate(place: Place, x: Any, cosine: Any, sine: Any) -> Any:
    return place.torch.addcmul(x * cosine, x.roll(x.shape[-1] // 2, dims=-1), sine)
