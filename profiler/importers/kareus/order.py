"""In which order an operation's partitions run, which a profile's sorted rows cannot tell.

A forward runs the embedding, each layer's partitions as the layout lists them, the head and the loss. A backward is
its mirror: the head, each layer's partitions from the last to the first, the embedding; with recomputation a layer
runs the forward's partitions again before its own.
"""

from energyopt.applier.kareus.layouts import RECOMPUTE
from energyopt.profiler.importers.kareus.extras import EXTRAS
from energyopt.profiler.importers.kareus.job import Job
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.partition_order import PartitionOrder


def order_of(job: Job) -> PartitionOrder:
    """The order of every operation of every stage."""
    return {
        OpKey(stage, 0, kind): _order(job, stage, kind)
        for stage in range(len(job.layers_per_stage))
        for kind in (OpKind.FORWARD, OpKind.BACKWARD)
    }


def _order(job: Job, stage: int, kind: OpKind) -> tuple[str, ...]:
    embedding = _extras(kind, is_first=True) if stage == 0 else ()
    head = _extras(kind, is_first=False) if stage == len(job.layers_per_stage) - 1 else ()
    if kind is OpKind.FORWARD:
        return (*embedding, *_layer(job, kind), *head)
    return (*head, *_layer(job, kind), *embedding)


def _layer(job: Job, kind: OpKind) -> tuple[str, ...]:
    names = [name for name, _ in job.layout.runs(kind, recompute=job.recompute)]
    if kind is OpKind.FORWARD:
        return tuple(names)
    again = [name for name in names if name.startswith(RECOMPUTE)]
    return (*again, *reversed(names[len(again) :]))


def _extras(kind: OpKind, *, is_first: bool) -> tuple[str, ...]:
    return tuple(one.partition for one in EXTRAS if one.kind is kind and one.is_first is is_first)
