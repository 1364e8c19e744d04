"""What every block is made from: the architecture, the job, the sizes on one GPU, and the collectives."""

import math
from dataclasses import dataclass, replace

from energyopt.profiler.workloads.architecture import Architecture
from energyopt.profiler.workloads.interface import Collective, Communication, Kernel
from energyopt.profiler.workloads.job import NANOBATCHES, JobShape
from energyopt.profiler.workloads.layers.communication import communication_kernel
from energyopt.profiler.workloads.layers.sizes import Sizes, local_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model as one GPU sees it."""

    architecture: Architecture
    shape: JobShape
    sizes: Sizes

    def cut(self) -> "Model":
        """The same on one of the parts of a microbatch that is cut."""
        part = replace(self.shape, microbatch_size=self.shape.microbatch_size // NANOBATCHES)
        return model_of(self.architecture, part)

    @property
    def enter(self) -> Kernel | None:
        """What gathers the tokens before a pair of linear layers: with sequence parallelism alone."""
        return self._tensor(Collective.ALL_GATHER) if self.shape.shards_sequence else None

    @property
    def leave(self) -> Kernel | None:
        """What adds up the ranks' partial sums after a pair of linear layers."""
        if self.shape.tensor_parallel == 1:
            return None
        sharded = self.shape.shards_sequence
        return self._tensor(Collective.REDUCE_SCATTER if sharded else Collective.ALL_REDUCE)

    @property
    def gather_keys(self) -> Kernel | None:
        """What collects the keys and values of a whole sequence (all-gather context parallelism, Llama 3)."""
        return self._context(Collective.ALL_GATHER)

    @property
    def scatter_keys(self) -> Kernel | None:
        """What adds up the gradients of keys and values and hands each rank its own."""
        return self._context(Collective.REDUCE_SCATTER)

    @property
    def gather_weights(self) -> Kernel | None:
        """What collects a layer's weights from all replicas."""
        return self._data(Collective.ALL_GATHER)

    @property
    def scatter_gradients(self) -> Kernel | None:
        """What adds up the gradients of a layer's weights and hands each replica its own share."""
        return self._data(Collective.REDUCE_SCATTER)

    def _tensor(self, collective: Collective) -> Kernel:
        """A collective over the activations of a microbatch."""
        message_bytes = self.sizes.tokens * self.sizes.hidden * self.sizes.element_bytes
        return self._kernel(collective, "tensor", self.shape.tensor_parallel, message_bytes)

    def _context(self, collective: Collective) -> Kernel | None:
        if self.shape.context_parallel == 1:
            return None
        width = 2 * self.sizes.kv_heads * self.sizes.head_dim
        message_bytes = self.sizes.batch * self.sizes.keys * width * self.sizes.element_bytes
        return self._kernel(collective, "context", self.shape.context_parallel, message_bytes)

    def _data(self, collective: Collective) -> Kernel | None:
        """A collective over a layer's parameters, padded to equal shares, in the type of the weights."""
        replicas = self.shape.data_parallel
        if replicas == 1:
            return None
        share = math.ceil(self.architecture.layer_parameters / replicas)
        return self._kernel(collective, "data", replicas, share * replicas * self.shape.element_bytes)

    def _kernel(self, collective: Collective, group: str, ranks: int, message_bytes: int) -> Kernel:
        communication = Communication(
            collective=collective, message_bytes=float(message_bytes), group=group, ranks=ranks
        )
        return communication_kernel(f"{group}_{collective}", communication, self.shape.dtype)


def model_of(architecture: Architecture, shape: JobShape) -> Model:
    """The model as one GPU of the job sees it.

    Raises:
        WorkloadError: sizes do not divide.
    """
    return Model(architecture=architecture, shape=shape, sizes=local_sizes(architecture, shape))
