"""Normalisation of each row, over the hidden width or per head."""

from collections.abc import Callable
from typing import Any

from energyopt.profiler.workloads.architecture import Norm
from energyopt.profiler.workloads.interface import Kernel, Place
from energyopt.profiler.workloads.layers.kernels import compute_kernel, gradient_of, normal
from energyopt.profiler.workloads.layers.sizes import Sizes

_EPSILON = 1e-5
_FORWARD_FLOPS = {Norm.RMS: 4, Norm.LAYER: 7}  # per element
_BACKWARD_FLOPS = {Norm.RMS: 9, Norm.LAYER: 13}


def norms(name: str, sizes: Sizes, kind: Norm, *, rows: int, width: int) -> tuple[Kernel, Kernel]:
    """Forward (`name`) and backward (`name.backward`, of input and weight) over [rows, width].

    The forward reads the input and writes the output; the backward reads the input and the output's gradient
    and writes the input's gradient.
    """
    elements = rows * width

    def forward(place: Place) -> Callable[[], object]:
        inputs = _inputs(place, kind, rows, width)
        return lambda: _apply(place, kind, *inputs)

    def backward(place: Place) -> Callable[[], object]:
        inputs = _inputs(place, kind, rows, width)
        return gradient_of(place, lambda *leaves: _apply(place, kind, *leaves), inputs)

    return (
        compute_kernel(
            name,
            sizes,
            flops=_FORWARD_FLOPS[kind] * elements,
            memory_bytes=2 * elements * sizes.element_bytes,
            build=forward,
        ),
        compute_kernel(
            f"{name}.backward",
            sizes,
            flops=_BACKWARD_FLOPS[kind] * elements,
            memory_bytes=3 * elements * sizes.element_bytes,
            build=backward,
            launches=2,
        ),
    )


def _inputs(place: Place, kind: Norm, rows: int, width: int) -> list[Any]:
    vectors = [place.torch.ones(width, device=place.device, dtype=place.dtype)]
    if kind is Norm.LAYER:
        vectors.append(place.torch.zeros_like(vectors[0]))
    return [normal(place, rows, width), *vectors]


def _apply(place: Place, kind: Norm, x: Any, *vectors: Any) -> Any:
    functional = place.torch.nn.functional
    if kind is Norm.RMS:
        return functional.rms_norm(x, x.shape[-1:], *vectors, _EPSILON)
    return functional.layer_norm(x, x.shape[-1:], *vectors, _EPSILON)
