"""From an architecture and a job's shape to the ops of every stage and chunk.

Kernels follow Megatron-LM: a layer's linear layers are cut over the tensor-parallel ranks in pairs, with one
exchange before and one after each pair (Narayanan et al. 2021; sequence parallelism: Korthikanti et al. 2022).
With tensor or context parallelism the layers of an op also come in a form that is cut in two parts of a microbatch,
so that one part's communication can run beside the other's compute kernels; embedding and head run whole.

Sends between stages and the optimizer are not part of it; nor is the synchronisation of gradients between replicas,
but for layers whose weights are sharded over them: embedding and head are taken to stay whole for an iteration.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from energyopt.profiler.workloads.architecture import Architecture
from energyopt.profiler.workloads.blocks.embedding import embedding_backward, embedding_forward
from energyopt.profiler.workloads.blocks.head import head_backward, head_forward
from energyopt.profiler.workloads.blocks.layer import layer_backward, layer_forward
from energyopt.profiler.workloads.blocks.model import Model, model_of
from energyopt.profiler.workloads.blocks.segments import Part, partitions
from energyopt.profiler.workloads.composites import communication_of, launch_names
from energyopt.profiler.workloads.interface import Kernel, Partition, PartitionUse, Workload, WorkloadOp
from energyopt.profiler.workloads.job import NANOBATCHES, JobShape, split_layers
from energyopt.profiler.workloads.layers.communication import with_sms
from energyopt.schemas.ops import OpKind

Partitions = tuple[Partition, ...]
_Uses = tuple[PartitionUse, ...]

_PARTS = {
    OpKind.BACKWARD: Part.WHOLE,
    OpKind.BACKWARD_INPUT: Part.INPUT,
    OpKind.BACKWARD_WEIGHT: Part.WEIGHT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocks:
    """The partitions of an op, wherever it stands: before its layers, of each layer, after its layers.

    cut: those of each layer for one part of a microbatch that is cut; empty where nothing in them communicates.
    """

    embedding: Partitions
    layer: Partitions
    head: Partitions
    cut: Partitions = ()


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
        gpus_per_stage=shape.gpus_per_stage,
        replicas=shape.data_parallel,
        settings=_settings(architecture, shape, split),
    )
    return replace(workload, variants=_variants(workload, shape))


def _kinds(model: Model) -> dict[OpKind, _Blocks]:
    split = model.shape.split_backward
    backward = (OpKind.BACKWARD_INPUT, OpKind.BACKWARD_WEIGHT) if split else (OpKind.BACKWARD,)
    whole: dict[str, Kernel] = {}
    cut: dict[str, Kernel] = {}
    return {kind: _blocks(model, kind, whole, cut) for kind in (OpKind.FORWARD, *backward)}


def _blocks(model: Model, kind: OpKind, whole: dict[str, Kernel], cut: dict[str, Kernel]) -> _Blocks:
    """An op's blocks; kernels of one name become one and the same, on the whole microbatch and on its parts."""
    if kind is OpKind.FORWARD:
        embedding = partitions("embedding", embedding_forward(model))
        head = partitions("head", head_forward(model))
    else:
        embedding = partitions("embedding", embedding_backward(model), _PARTS[kind])
        head = partitions("head", head_backward(model), _PARTS[kind])
    layer = _unified(_layer(model, kind), whole)
    return _Blocks(
        embedding=_unified(embedding, whole),
        # with sharded weights, what communicates is another layer's: it can overlap as it is
        layer=_launchable(layer, model.shape) if model.shape.data_parallel > 1 else layer,
        head=_unified(head, whole),
        cut=_cut(model, kind, cut) if model.shape.can_be_cut else (),
    )


def _layer(model: Model, kind: OpKind) -> Partitions:
    return layer_forward(model) if kind is OpKind.FORWARD else layer_backward(model, _PARTS[kind])


def _cut(model: Model, kind: OpKind, known: dict[str, Kernel]) -> Partitions:
    found = _launchable(_unified(_layer(model.cut(), kind), known), model.shape)
    return found if any(one.launch_points for one in found) else ()


def _unified(found: Partitions, known: dict[str, Kernel]) -> Partitions:
    return tuple(
        replace(
            one,
            kernels=tuple(
                replace(use, kernel=known.setdefault(use.kernel.name, use.kernel)) for use in one.kernels
            ),
        )
        for one in found
    )


def _launchable(found: Partitions, shape: JobShape) -> Partitions:
    """Where a partition communicates, that may start before each of its compute kernels."""
    return tuple(
        replace(one, launch_points=launch_names(one), comm_sms=shape.comm_sms)
        if communication_of(one)
        else one
        for one in found
    )


def _ops(
    stage: int, chunk: int, shape: JobShape, split: tuple[int, ...], kinds: Mapping[OpKind, _Blocks]
) -> list[WorkloadOp]:
    virtual = chunk * shape.stages + stage
    layers = split[virtual]
    found = []
    for kind, all_blocks in kinds.items():
        blocks = replace(
            all_blocks,
            embedding=all_blocks.embedding if virtual == 0 else (),
            head=all_blocks.head if virtual == len(split) - 1 else (),
        )
        whole = _ordered(kind, blocks, blocks.layer, layers)
        cut = _ordered(kind, blocks, blocks.cut, NANOBATCHES * layers) if blocks.cut and layers else ()
        if whole:  # a first stage without layers has nothing to do for the gradient of its input
            found.append(WorkloadOp(stage=stage, chunk=chunk, kind=kind, partitions=whole, split=cut))
    return found


def _ordered(kind: OpKind, blocks: _Blocks, layer: Partitions, layers: int) -> _Uses:
    """The partitions of one op in order; a backward meets the blocks from the last to the first."""
    groups = ((blocks.embedding, 1), (layer, layers), (blocks.head, 1))
    ordered = groups if kind is OpKind.FORWARD else tuple(reversed(groups))
    return tuple(
        PartitionUse(partition=one, count=count) for group, count in ordered if count for one in group
    )


def _variants(workload: Workload, shape: JobShape) -> tuple[Kernel, ...]:
    talking = [kernel for kernel in workload.kernels() if kernel.communication]
    return tuple(with_sms(kernel, sms) for kernel in talking for sms in shape.comm_sms)


def _settings(
    architecture: Architecture, shape: JobShape, split: tuple[int, ...]
) -> dict[str, str | int | float]:
    degrees = {"dp": shape.data_parallel} if shape.data_parallel > 1 else {}
    return {
        "model": architecture.name,
        "tp": shape.tensor_parallel,
        "cp": shape.context_parallel,
        **degrees,
        "microbatch_size": shape.microbatch_size,
        "sequence_length": shape.sequence_length,
        "dtype": shape.dtype,
        "layers_per_stage": ",".join(map(str, split)),
        "recompute": str(shape.recompute),
        "attention": str(shape.attention),
        "sequence_parallel": "on" if shape.shards_sequence else "off",
    }
