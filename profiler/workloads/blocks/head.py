"""What the last stage does after its layers: final norm, projection to the vocabulary, loss."""

from energyopt.profiler.workloads.blocks.model import Model
from energyopt.profiler.workloads.blocks.segments import ForWeight, Segment
from energyopt.profiler.workloads.interface import Kernel
from energyopt.profiler.workloads.layers.linear import Linear, linear
from energyopt.profiler.workloads.layers.loss import losses
from energyopt.profiler.workloads.layers.norm import norms


def head_forward(model: Model) -> list[Segment]:
    """The projection is split over the vocabulary, so that the loss needs no gathered logits."""
    kernels = (_norm(model)[0], model.enter, _projection(model).forward, losses(model.sizes)[0])
    return [Segment("loss", kernels)]


def head_backward(model: Model) -> list[Segment]:
    """The same backwards; with sequence parallelism the input is gathered again for its weight's gradient."""
    projection, enter = _projection(model), model.enter
    return [
        Segment("dgrad", (losses(model.sizes)[1], ForWeight(enter) if enter else None, projection.dgrad)),
        Segment("wgrad", (model.leave, ForWeight(projection.wgrad), _norm(model)[1])),
    ]


def _norm(model: Model) -> tuple[Kernel, Kernel]:
    sizes = model.sizes
    return norms("norm", sizes, model.architecture.norm, rows=sizes.rows, width=sizes.hidden)


def _projection(model: Model) -> Linear:
    return linear("output_head", model.sizes, inputs=model.sizes.hidden, outputs=model.sizes.vocabulary)
