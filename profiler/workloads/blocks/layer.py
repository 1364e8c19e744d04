"""A layer's partitions: attention and MLP, forward and backward, with what is recomputed.

With weights sharded over replicas (Rajbhandari et al. 2020; Zhao et al. 2023), a layer computes while the weights
of the next one are gathered or the gradients of the one before are scattered: neither needs the other. A forward of
L layers so has L gathers; that of its first layer runs beside whatever comes before it.
"""

from energyopt.profiler.workloads.blocks.attention import attention_backward, attention_forward
from energyopt.profiler.workloads.blocks.mlp import mlp_backward, mlp_forward
from energyopt.profiler.workloads.blocks.model import Model
from energyopt.profiler.workloads.blocks.segments import ForWeight, Part, Segment, partitions
from energyopt.profiler.workloads.interface import Partition
from energyopt.profiler.workloads.job import Recompute

Partitions = tuple[Partition, ...]


def layer_forward(model: Model) -> Partitions:
    """The partitions of one layer's forward."""
    if model.shape.data_parallel > 1:
        gather = Segment("gather", (model.gather_weights,))
        return partitions("layer", [gather, *attention_forward(model), *mlp_forward(model)])
    return _unsharded_forward(model, "")


def layer_backward(model: Model, part: Part) -> Partitions:
    """The partitions of one layer's backward, after what it computes again."""
    again: Partitions = ()
    if model.shape.recompute is Recompute.FULL and part is not Part.WEIGHT:
        again = _unsharded_forward(model, "_recompute")
    if model.shape.data_parallel > 1:
        return again + _sharded_backward(model, part)
    mlp = partitions("mlp", mlp_backward(model), part)
    return again + mlp + partitions("attention", attention_backward(model), part)


def _unsharded_forward(model: Model, suffix: str) -> Partitions:
    attention = partitions(f"attention{suffix}", attention_forward(model))
    return attention + partitions(f"mlp{suffix}", mlp_forward(model))


def _sharded_backward(model: Model, part: Part) -> Partitions:
    """The MLP beside the gather of the layer below; attention beside the scatter of the layer above."""
    gather = Segment("gather", (model.gather_weights,))
    scatter = Segment("scatter", tuple(ForWeight(one) for one in (model.scatter_gradients,) if one))
    mlp = partitions("mlp", [gather, *mlp_backward(model)], part)
    return mlp + partitions("attention", [scatter, *attention_backward(model)], part)
