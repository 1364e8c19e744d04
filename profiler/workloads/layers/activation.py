"""The function between an MLP's two projections."""

from collections.abc import Callable
from typing import Any

from energyopt.profiler.workloads.architecture import Activation
from energyopt.profiler.workloads.interface import Kernel, Place
from energyopt.profiler.workloads.layers.kernels import compute_kernel, gradient_of, normal
from energyopt.profiler.workloads.layers.sizes import Sizes

_FLOPS = {Activation.SILU: 4, Activation.GELU: 8, Activation.RELU: 1}  # per element; the gate adds one


def activations(sizes: Sizes, kind: Activation, *, gated: bool) -> tuple[Kernel, Kernel]:
    """`activation` and `activation.backward`.

    The forward reads one tensor (gated: two) of [tokens, intermediate] and writes one; the backward reads those
    inputs and the output's gradient and writes a gradient for each input.
    """
    elements = sizes.tokens * sizes.intermediate
    inputs = 2 if gated else 1
    flops = (_FLOPS[kind] + gated) * elements

    def tensors(place: Place) -> list[Any]:
        return [normal(place, sizes.tokens, sizes.intermediate) for _ in range(inputs)]

    def forward(place: Place) -> Callable[[], object]:
        given = tensors(place)
        return lambda: _apply(place, kind, *given)

    def backward(place: Place) -> Callable[[], object]:
        return gradient_of(place, lambda *leaves: _apply(place, kind, *leaves), tensors(place))

    return (
        compute_kernel(
            "activation",
            sizes,
            flops=flops,
            memory_bytes=(inputs + 1) * elements * sizes.element_bytes,
            build=forward,
            launches=inputs,
        ),
        compute_kernel(
            "activation.backward",
            sizes,
            flops=2 * flops,
            memory_bytes=(2 * inputs + 1) * elements * sizes.element_bytes,
            build=backward,
            launches=3 if gated else 1,
        ),
    )


def _apply(place: Place, kind: Activation, x: Any, *gate: Any) -> Any:
    functional = place.torch.nn.functional
    if kind is Activation.GELU:
        out = functional.gelu(x, approximate="tanh")
    else:
        out = functional.silu(x) if kind is Activation.SILU else functional.relu(x)
    return out * gate[0] if gate else out
