"""The MLP block of one layer: norm to residual sum."""

from energyopt.profiler.workloads.blocks.model import Model
from energyopt.profiler.workloads.blocks.segments import ForWeight, Segment
from energyopt.profiler.workloads.interface import Kernel
from energyopt.profiler.workloads.layers.activation import activations
from energyopt.profiler.workloads.layers.linear import Linear, linear
from energyopt.profiler.workloads.layers.norm import norms
from energyopt.profiler.workloads.layers.residual import residual_add


def mlp_forward(model: Model) -> list[Segment]:
    """The projection up, the activation, the projection down."""
    return [
        Segment("up", (_norm(model)[0], model.enter, _up(model).forward, _activation(model)[0])),
        Segment("down", (_down(model).forward, model.leave, residual_add(model.sizes))),
    ]


def mlp_backward(model: Model) -> list[Segment]:
    """The same backwards; with sequence parallelism the input is gathered again for its weight's gradient."""
    up, down, enter = _up(model), _down(model), model.enter
    return [
        Segment("down", (enter, down.dgrad, ForWeight(down.wgrad))),
        Segment("up_dgrad", (ForWeight(enter) if enter else None, _activation(model)[1], up.dgrad)),
        Segment("up_wgrad", (model.leave, ForWeight(up.wgrad), _norm(model)[1], residual_add(model.sizes))),
    ]


def _norm(model: Model) -> tuple[Kernel, Kernel]:
    sizes = model.sizes
    return norms("norm", sizes, model.architecture.norm, rows=sizes.rows, width=sizes.hidden)


def _up(model: Model) -> Linear:
    """One product for both projections where the MLP is gated."""
    name = "gate_up_proj" if model.architecture.gated_mlp else "up_proj"
    return linear(name, model.sizes, inputs=model.sizes.hidden, outputs=model.sizes.up_features)


def _down(model: Model) -> Linear:
    return linear("down_proj", model.sizes, inputs=model.sizes.intermediate, outputs=model.sizes.hidden)


def _activation(model: Model) -> tuple[Kernel, Kernel]:
    architecture = model.architecture
    return activations(model.sizes, architecture.hidden_act, gated=architecture.gated_mlp)
