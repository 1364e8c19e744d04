"""Trains a small tensor-parallel transformer on CPUs, with a plan that overlaps communication with compute.

    torchrun --nproc-per-node 2 examples/overlapped_layer.py [plan.json]

Each microbatch is cut into two parts (nanobatches) where the plan says so. While one part computes, what the other
part has computed is summed over the ranks; before which kernel that starts, forward and backward, and with how many
SMs on GPUs, stands in the plan. Its names of partitions and kernels stand here as texts. Without a plan the same
code runs one kernel after the other on whole microbatches. The losses are the same but for rounding, since a
gradient is added up of two parts where it was one; that they overlap changes no bit.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

from energyopt.applier import open_session
from energyopt.applier.overlap.collectives import COPY, REDUCE, REDUCE_COPY

WIDTH, HEADS, TOKENS, LAYERS, MICROBATCHES, ITERATIONS = 32, 4, 16, 2, 2, 3


@dataclass
class Part:
    """One part of a microbatch: its residual stream, the norm of that, and what is not summed over the ranks yet.

    norm: weights of the norm before the next block; None after the last one.
    """

    stream: torch.Tensor
    normed: torch.Tensor | None = None
    partial: torch.Tensor | None = None
    norm: torch.Tensor | None = None


class Block:
    """An attention or an MLP, of which this rank has its share of the heads or features."""

    def __init__(self, name: str, inner: int, factor: int, generator: torch.Generator) -> None:
        size, rank = dist.get_world_size(), dist.get_rank()
        enter = torch.randn(factor, inner, WIDTH, generator=generator).chunk(size, 1)[rank].flatten(0, 1)
        leave = torch.randn(WIDTH, inner, generator=generator).chunk(size, 1)[rank]
        self.name, self.compute = name, self.attention if name == "attention" else self.mlp
        self.norm = torch.ones(WIDTH, requires_grad=True)
        self.enter = (enter / WIDTH**0.5).contiguous().requires_grad_()
        self.leave = (leave / inner**0.5).contiguous().requires_grad_()

    def attention(self, region: Any, value: torch.Tensor) -> torch.Tensor:
        """One part's attention; points stand before kernels, each with the kernel that is next on the way back."""
        value = region.launch_point("qkv_proj", value)
        qkv = region.launch_point("attention", value @ self.enter.T, backward="qkv_proj.dgrad")
        heads = [one.unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for one in qkv.chunk(3, -1)]
        found = scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2)
        found = region.launch_point("out_proj", found, backward="attention.backward")
        return region.launch_point(None, found @ self.leave.T, backward="out_proj.dgrad")

    def mlp(self, region: Any, value: torch.Tensor) -> torch.Tensor:
        """One part's MLP."""
        value = region.launch_point("gate_up_proj", value)
        value = region.launch_point("activation", value @ self.enter.T, backward="gate_up_proj.dgrad")
        gate, up = value.chunk(2, -1)
        value = region.launch_point("down_proj", silu(gate) * up, backward="activation.backward")
        return region.launch_point(None, value @ self.leave.T, backward="down_proj.dgrad")


class Model:
    """Blocks in order; each part's sum over the ranks runs beside the other part's next block."""

    def __init__(self, session: Any) -> None:
        generator = torch.Generator().manual_seed(1)
        self.session, self.communicators = session, session.communicators()
        self.blocks = [
            Block(*shape, generator)
            for _ in range(LAYERS)
            for shape in (("attention", 32, 3), ("mlp", 64, 2))
        ]

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """All blocks for all parts of a microbatch."""
        parts = [Part(one) for one in value.chunk(self.session.nanobatches())]
        for part in parts:  # the sum over the ranks of its gradient is all that the first norm needs
            normed = rms_norm(part.stream, (WIDTH,), self.blocks[0].norm)
            with self.session.overlap("first", COPY, self.communicators, normed) as region:
                part.normed = region.join()
        norms = [*(block.norm for block in self.blocks[1:]), None]
        waiting: Part | None = None
        for block, norm in zip(self.blocks, norms, strict=True):
            for part in parts:
                if waiting is part:  # the microbatch is not cut: nothing to compute meanwhile
                    self.run(None, part, waiting)
                    waiting = None
                self.run(block, part, waiting)
                part.norm = norm
                waiting = part
        self.run(None, parts[-1], parts[-1])
        return torch.cat([part.stream for part in parts])

    def run(self, block: Block | None, part: Part, waiting: Part | None) -> None:
        """A block for one part, beside the sum over the ranks of what waits for it."""
        name = "alone" if block is None else block.name
        given: tuple[Any, ...] = (None,) if waiting is None else (waiting.partial, waiting.stream)
        norm = None if waiting is None else waiting.norm

        def then(found: torch.Tensor, stream: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            stream = stream + found
            return (stream if norm is None else rms_norm(stream, (WIDTH,), norm)), stream

        exchange = REDUCE if norm is None else REDUCE_COPY
        with self.session.overlap(name, exchange, self.communicators, *given, then=then) as region:
            if block is not None:
                part.partial = block.compute(region, part.normed)
            if waiting is not None:
                waiting.normed, waiting.stream = region.join()

    def weights(self) -> Iterator[torch.Tensor]:
        """This rank's."""
        for block in self.blocks:
            yield from (block.norm, block.enter, block.leave)


def train(session: Any) -> list[str]:
    """The loss of each microbatch, bit for bit."""
    model = Model(session)
    optimizer = torch.optim.SGD(model.weights(), lr=0.01)
    data = torch.Generator().manual_seed(2)
    losses = []
    for _ in range(ITERATIONS):
        session.step()
        for microbatch in range(MICROBATCHES):
            batch = torch.randn(4, TOKENS, WIDTH, generator=data)
            with session.op("forward", microbatch):
                loss = model.forward(batch).square().mean()
            with session.op("backward", microbatch):
                loss.backward()
            losses.append(loss.item().hex())
        optimizer.step()
        optimizer.zero_grad()
    session.close()
    return losses


def main() -> None:
    """One rank of a job."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for loss in train(open_session(*sys.argv[1:])):
        print(f"rank {dist.get_rank()} loss {loss}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
