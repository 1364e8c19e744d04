"""What every session offers to a training that runs a plan's partitions.

    communicators = session.communicators(tensor_parallel_group)
    ...
    session.step()
    with session.op("forward", microbatch=0):
        parts = batch.chunk(session.nanobatches())
        ...
        with session.overlap("mlp", REDUCE, communicators, attended_by_the_other_part) as region:
            ...

See `region` for what stands in the block, and examples/overlapped_layer.py for a whole model.
"""

from typing import Any

from energyopt.applier.overlap.collectives import Exchange
from energyopt.applier.overlap.communicators import Communicators
from energyopt.applier.overlap.region import Region, Then
from energyopt.applier.overlap.ways import Ways
from energyopt.schemas.partitions import PartitionConfig


class Following:
    """The part of a session that has to do with partitions.

    ways: what is planned; nothing is until all ranks have asked for communicators and training has begun.
    """

    ways: Ways

    def partition(self, name: str) -> PartitionConfig | None:
        """How a partition of the operation that runs now is to run; None for one kernel after the other."""
        return self.ways.partition(name)

    def nanobatches(self) -> int:
        """Parts that the microbatch of the operation that runs now is cut into; 1 for the whole."""
        return self.ways.nanobatches()

    def overlap(
        self,
        partition: str,
        exchange: Exchange,
        communicators: Communicators,
        tensor: Any,
        *inputs: Any,
        then: Then | None = None,
        backward: str | None = None,
        recompute: str | None = None,
    ) -> Region:
        """A block of a partition's compute kernels, with a communication beside them (see `overlap.region`).

        Args:
            partition: its name in the plan's forward operations.
            exchange: what is communicated, forward and backward.
            communicators: where.
            tensor: what goes in: the other part's, which the kernels in the block do not need. None for nothing: a
                block of kernels alone.
            inputs: tensors that `then` needs besides and that need a gradient.
            then: makes a tensor, or a tuple of tensors, of the communicated one and the inputs; the gradient of the
                first is what is communicated on the way back. It is for what stands between the two (residual sum
                and norm): with it, the backward too has both of its ends in one block. Weights are used in it as
                anywhere; what was computed of them before is given as an input.
            backward: the partition's name in backward operations, where it is another one.
            recompute: its name there as a forward that is computed again; by default `PARTITION_recompute`.
        """
        return Region(
            self.ways,
            partition,
            exchange,
            communicators,
            tensor,
            inputs,
            then=then,
            backward=backward,
            recompute=recompute,
        )
