"""From an architecture and a job's shape to the ops of every stage and chunk.

Kernels follow Megatron-LM: a layer's linear layers are cut over the tensor-parallel ranks in pairs, with one
exchange before and one after each pair (Narayanan et al. 2021; sequence parallelism: Korthikanti et al. 2022).
Sends between stages, the optimizer and gradient synchronisation between replicas are not part of it.
"""

from dataclasses import dataclass, replace

from energyopt.profiler.workloads.architecture import Architecture
from energyopt.profiler.workloads.blocks.attention import attention_backward, attention_forward
from energyopt.profiler.workloads.blocks.embedding import embedding_backward, embedding_forward
from energyopt.profiler.workloads.blocks.head import head_backward, head_forward
from energyopt.profiler.workloads.blocks.mlp import mlp_backward, mlp_forward
from energyopt.profiler.workloads.blocks.model import Model, model_of
from energyopt.profiler.workloads.blocks.segments import Part, partitions
from energyopt.profiler.workloads.interface import Kernel, Partition, PartitionUse, Workload, WorkloadOp
from energyopt.profiler.workloads.job import JobShape, Recompute, split_layers
from energyopt.profiler.workloads.layers.communication import with_sms
from energyopt.schemas.ops import OpKind


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocks:
    """The partitions of an op, wherever it stands: before its layers, of each layer, after its layers."""

    embedding: tuple[Partition, ...] = ()
    layer: tuple[Partition, ...] = ()
    head: tuple[Partition, ...] = ()


def transformer_workload(architecture: Architecture, shape: JobShape) -> Workload:
    """The workload of a model under a job's shape.

    Virtual stage v stands on stage v mod stages, as its chunk v div stages.

    Raises:
        WorkloadError: sizes do not divide, or layers do not fill the stages.
    """
    model = model_of(architecture, shape)
    split = split_layers(architecture.num_hidden_layers, shape)
    kinds = _kinds(model)
    ops = tuple(
        op
        for stage in range(shape.stages)
        for chunk in range(shape.chunks)
        for op in _ops(stage, chunk, shape, split, kinds)
    )
    workload = Workload(
        name=architecture.name,
        ops=ops,
        stages=shape.stages,
        chunks=shape.chunks,
        gpus_per_stage=shape.tensor_parallel * shape.context_parallel,
        settings=_settings(architecture, shape, split),
    )
    return replace(workload, variants=_variants(workload, shape))


def _kinds(model: Model) -> dict[OpKind, _Blocks]:
    kinds = {OpKind.FORWARD: _forward(model)}
    if model.shape.split_backward:
        kinds[OpKind.BACKWARD_INPUT] = _backward(model, Part.INPUT)
        kinds[OpKind.BACKWARD_WEIGHT] = _backward(model, Part.WEIGHT)
    else:
        kinds[OpKind.BACKWARD] = _backward(model, Part.WHOLE)
    return kinds


def _forward(model: Model) -> _Blocks:
    return _Blocks(
        embedding=partitions("embedding", embedding_forward(model)),
        layer=partitions("attention", attention_forward(model)) + partitions("mlp", mlp_forward(model)),
        head=partitions("head", head_forward(model)),
    )


def _backward(model: Model, part: Part) -> _Blocks:
    layer = partitions("mlp", mlp_backward(model), part)
    layer += partitions("attention", attention_backward(model), part)
    if model.shape.recompute is Recompute.FULL and part is not Part.WEIGHT:
        again = partitions("attention_recompute", attention_forward(model))
        layer = again + partitions("mlp_recompute", mlp_forward(model)) + layer
    return _Blocks(
        embedding=partitions("embedding", embedding_backward(model), part),
        layer=layer,
        head=partitions("head", head_backward(model), part),
    )


def _ops(
    stage: int, chunk: int, shape: JobShape, split: tuple[int, ...], kinds: dict[OpKind, _Blocks]
) -> list[WorkloadOp]:
    virtual = chunk * shape.stages + stage
    found = []
    for kind, blocks in kinds.items():
        uses = _uses(
            embedding=blocks.embedding if virtual == 0 else (),
            layer=blocks.layer,
            layers=split[virtual],
            head=blocks.head if virtual == len(split) - 1 else (),
        )
        ordered = uses if kind is OpKind.FORWARD else tuple(reversed(uses))
        flat = tuple(use for group in ordered for use in group)
        if flat:  # a first stage without layers has nothing to do for the gradient of its input
            found.append(WorkloadOp(stage=stage, chunk=chunk, kind=kind, partitions=flat))
    return found


def _uses(
    *,
    embedding: tuple[Partition, ...],
    layer: tuple[Partition, ...],
    layers: int,
    head: tuple[Partition, ...],
) -> tuple[tuple[PartitionUse, ...], ...]:
    groups = ((embedding, 1), (layer, layers), (head, 1))
    return tuple(
        tuple(PartitionUse(partition=one, count=count) for one in group if count) for group, count in groups
    )


def _variants(workload: Workload, shape: JobShape) -> tuple[Kernel, ...]:
    talking = [kernel for kernel in workload.kernels() if kernel.communication]
    return tuple(with_sms(kernel, sms) for kernel in talking for sms in shape.comm_sms)


def _settings(
    architecture: Architecture, shape: JobShape, split: tuple[int, ...]
) -> dict[str, str | int | float]:
    return {
        "model": architecture.name,
        "tp": shape.tensor_parallel,
        "cp": shape.context_parallel,
        "microbatch_size": shape.microbatch_size,
        "sequence_length": shape.sequence_length,
        "dtype": shape.dtype,
        "layers_per_stage": ",".join(map(str, split)),
        "recompute": str(shape.recompute),
        "attention": str(shape.attention),
        "sequence_parallel": "on" if shape.shards_sequence else "off",
    }
