"""Layers of two nanobatches, whose kernels note that they run: in plain torch, and with regions.

`tensor`: attention and MLP, cut over the ranks as Megatron-LM does, all-reduce after each and before each backward.
`sequence`: an MLP whose input is gathered and whose output is scattered (sequence parallelism).
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from energyopt.applier.overlap.collectives import COPY, GATHER, REDUCE, REDUCE_COPY, SCATTER
from energyopt.applier.overlap.communicators import Communicators
from energyopt.applier.overlap.following import Following
from energyopt.applier.overlap.ways import NOTHING_PLANNED

WIDTH, TOKENS, LAYERS = 8, 6, 2
EVENTS: list[str] = []
ATTENTION = ("qkv_proj", "rope", "attention", "out_proj")
MLP = ("gate_up_proj", "activation", "down_proj")
BACKWARD = {  # kernels in the order of the backward
    "attention": ("out_proj.dgrad", "attention.backward", "rope.backward", "qkv_proj.dgrad"),
    "mlp": ("down_proj.dgrad", "activation.backward", "gate_up_proj.dgrad"),
}
FORWARD = {"attention": ATTENTION, "mlp": MLP}


class Plain(Following):
    """A session of a run without a plan."""

    ways = NOTHING_PLANNED


class Noted(Function):
    """Notes the kernel whose result passes, on its way back."""

    @staticmethod
    def forward(context: Any, value: Tensor, name: str) -> Tensor:
        context.name = name
        return value.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        EVENTS.append(context.name)
        return gradient, None


def note(name: str, back: str, kernel: Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
    EVENTS.append(name)
    return Noted.apply(kernel(value), back)


def norm(value: Tensor, weight: Tensor) -> Tensor:
    return torch.nn.functional.rms_norm(value, (WIDTH,), weight)


def rotate(value: Tensor) -> Tensor:
    first, second = value.chunk(2, -1)
    return torch.cat([first * 0.8 - second * 0.6, first * 0.6 + second * 0.8], -1)


def attend(qkv: Tensor) -> Tensor:
    query, key, value = qkv.chunk(3, -1)
    return torch.softmax(query @ key.T, -1) @ value


class Weights:
    """This rank's share of one layer."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        size, rank = dist.get_world_size(), dist.get_rank()

        def share(rows: int, columns: int, dim: int) -> Tensor:
            whole = torch.randn(rows, columns, generator=generator) / WIDTH**0.5
            return whole.chunk(size, dim)[rank].contiguous().requires_grad_()

        self.norms = [torch.ones(WIDTH, requires_grad=True) for _ in range(2)]
        self.qkv, self.out = share(6 * WIDTH, WIDTH, 0), share(WIDTH, 2 * WIDTH, 1)
        self.up, self.down = share(4 * WIDTH, WIDTH, 0), share(WIDTH, 4 * WIDTH, 1)

    def all(self) -> Iterator[Tensor]:
        yield from (*self.norms, self.qkv, self.out, self.up, self.down)

    def kernels(self, block: str) -> list[tuple[str, str, Callable[[Tensor], Tensor]]]:
        runs: dict[str, list[Callable[[Tensor], Tensor]]] = {
            "attention": [lambda v: v @ self.qkv.T, rotate, attend, lambda v: v @ self.out.T],
            "mlp": [lambda v: v @ self.up.T, torch.tanh, lambda v: v @ self.down.T],
        }
        return list(zip(FORWARD[block], reversed(BACKWARD[block]), runs[block], strict=True))


def compute(
    weights: Weights, block: str, value: Tensor, point: Callable[..., Tensor] | None = None
) -> Tensor:
    """A block's kernels, with a launch point before each and one after the last."""
    before = None
    for name, back, kernel in weights.kernels(block):
        value = value if point is None else point(name, value, backward=before)
        value, before = note(name, back, kernel, value), back
    return value if point is None else point(None, value, backward=before)


class Forward(Function):
    """A collective and that of its gradient, in plain torch."""

    @staticmethod
    def forward(context: Any, value: Tensor, run: Any, run_back: Any) -> Tensor:
        context.run_back = run_back
        return run(value)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        return context.run_back(gradient), None, None


def reduced(value: Tensor) -> Tensor:
    value = value.clone()
    dist.all_reduce(value)
    return value


def gathered(value: Tensor) -> Tensor:
    parts = [torch.empty_like(value) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, value.contiguous())
    return torch.cat(parts)


def scattered(value: Tensor) -> Tensor:
    return reduced(value).chunk(dist.get_world_size())[dist.get_rank()].contiguous()


def same(value: Tensor) -> Tensor:
    return value.clone()


def plain_tensor(layers: list[Weights], parts: list[Tensor]) -> list[Tensor]:
    found = []
    for part in parts:
        stream = part
        for weights in layers:
            for block, weight in zip(FORWARD, weights.norms, strict=True):
                entered = Forward.apply(norm(stream, weight), same, reduced)
                stream = stream + Forward.apply(compute(weights, block, entered), reduced, same)
        found.append(stream)
    return found


def plain_sequence(layers: list[Weights], parts: list[Tensor]) -> list[Tensor]:
    found = []
    for part in parts:
        stream = part
        for weights in layers:
            whole = Forward.apply(norm(stream, weights.norms[0]), gathered, scattered)
            stream = stream + Forward.apply(compute(weights, "mlp", whole), scattered, gathered)
        found.append(stream)
    return found


def overlapped_tensor(
    session: Following, groups: Communicators, layers: list[Weights], parts: list[Tensor]
) -> list[Tensor]:
    """Each part's sum over the ranks beside the other part's next block."""
    norms = [weight for weights in layers for weight in weights.norms]
    blocks = [(weights, block) for weights in layers for block in FORWARD]
    streams, entered, partial = list(parts), [], [None, None]
    for part in parts:
        with session.overlap("first", COPY, groups, norm(part, norms[0])) as region:
            entered.append(region.join())

    def finish(part: int, place: int, name: str, run: Callable[[Any], None]) -> None:
        weight = norms[place] if place < len(norms) else None

        def then(found: Tensor, stream: Tensor) -> Any:
            stream = stream + found
            return stream if weight is None else (norm(stream, weight), stream)

        exchange = REDUCE if weight is None else REDUCE_COPY
        given = (partial[part], streams[part])
        with session.overlap(name, exchange, groups, *given, then=then) as region:
            run(region)
        if weight is None:
            streams[part] = region.join()
        else:
            entered[part], streams[part] = region.join()

    for place, (weights, block) in enumerate(blocks):
        for part in range(2):

            def run(region: Any, part: int = part, weights: Weights = weights, block: str = block) -> None:
                partial[part] = compute(weights, block, entered[part], region.launch_point)

            if partial[1 - part] is None:
                with session.overlap(block, REDUCE, groups, None) as region:
                    run(region)
            else:
                finish(1 - part, place + part, block, run)
    finish(1, len(norms), "last", lambda _region: None)
    return streams


def overlapped_sequence(
    session: Following, groups: Communicators, layers: list[Weights], parts: list[Tensor]
) -> list[Tensor]:
    """The second part is gathered beside the first's kernels, the first scattered beside the second's."""
    first, second = parts
    for weights in layers:
        weight = weights.norms[0]
        with session.overlap("first", GATHER, groups, norm(first, weight)) as region:
            whole = region.join()
        with session.overlap("gathering", GATHER, groups, norm(second, weight)) as region:
            partial = compute(weights, "mlp", whole, region.launch_point)
            whole = region.join()
        with session.overlap("scattering", SCATTER, groups, partial, backward="gathering_back") as region:
            partial = compute(weights, "mlp", whole, region.launch_point)
            first = first + region.join()
        with session.overlap("last", SCATTER, groups, partial) as region:
            pass
        second = second + region.join()
    return [first, second]
