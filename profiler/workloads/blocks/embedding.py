"""What the first stage does before its layers."""

from energyopt.profiler.workloads.architecture import Position
from energyopt.profiler.workloads.blocks.model import Model
from energyopt.profiler.workloads.blocks.segments import ForWeight, Segment
from energyopt.profiler.workloads.layers.embedding import embeddings, position_adds


def embedding_forward(model: Model) -> list[Segment]:
    """The look-up in this rank's share of the table, the sum over ranks, and learned positions."""
    learned = model.architecture.position is Position.LEARNED
    positions = position_adds(model.sizes)[0] if learned else None
    return [Segment("lookup", (embeddings(model.sizes)[0], model.leave, positions))]


def embedding_backward(model: Model) -> list[Segment]:
    """Gradients of the tables; there is no input to have one."""
    learned = model.architecture.position is Position.LEARNED
    kernels = [
        position_adds(model.sizes)[1] if learned else None,
        model.enter,
        embeddings(model.sizes)[1],
    ]
    return [Segment("lookup", tuple(ForWeight(kernel) for kernel in kernels if kernel))]
