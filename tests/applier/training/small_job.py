"""What the jobs of this folder that train a few linear layers have in common; they find it beside themselves."""

import argparse
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

WIDTH, LAYERS, BATCH = 8, 4, 2


class Sleep(torch.autograd.Function):
    """Passes its input on, and its gradient back, after a while: work of a steady length on a noisy machine."""

    @staticmethod
    def forward(context: Any, hidden: torch.Tensor, seconds: float) -> torch.Tensor:
        context.seconds = seconds
        time.sleep(seconds)
        return hidden.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        time.sleep(context.seconds)
        return gradient, None


class Layer(nn.Module):
    """A linear layer that takes `op_time_s` in each direction."""

    def __init__(self, op_time_s: float) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.op_time_s = op_time_s

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.linear(hidden))
        return Sleep.apply(hidden, self.op_time_s) if self.op_time_s else hidden


def layers(args: argparse.Namespace) -> list[Layer]:
    """The same weights on every rank and in every run."""
    torch.manual_seed(1)
    return [Layer(args.op_time_ms / 1e3) for _ in range(LAYERS)]


def batches(count: int, seed: int = 1) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Batches of inputs and targets."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(count, 2, BATCH, WIDTH, generator=generator)
    return [(inputs, targets) for inputs, targets in drawn]


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that all jobs take."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--out", type=Path, required=True, help="folder for rank-N.json")
    made.add_argument("--iterations", type=int, default=3, help="with all their microbatches")
    made.add_argument("--microbatches", type=int, default=2)
    made.add_argument("--short", type=int, default=0, help="microbatches of one more iteration, the last")
    made.add_argument(
        "--op-time-ms", type=float, default=0.0, help="time of each layer, forward and backward"
    )
    made.add_argument("--evaluate-every", type=int, default=0, metavar="ITERATIONS")
    made.add_argument("--rendezvous", type=Path, help="file to meet at, in place of MASTER_ADDR")
    return made


def connect(args: argparse.Namespace, always: bool = False) -> None:
    """Start torch.distributed as torchrun's ranks do; a rank on its own only where it is asked for."""
    torch.set_num_threads(1)
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size > 1 or always:
        method = f"file://{args.rendezvous}" if args.rendezvous else "env://"
        rank = int(os.environ.get("RANK", "0"))
        dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world_size)


def finish(args: argparse.Namespace, model: nn.Module, losses: list[float], **more: Any) -> None:
    """Write what was computed, bit for bit."""
    weights = b"".join(weight.detach().numpy().tobytes() for weight in model.parameters())
    result = {
        "losses": [float(loss).hex() for loss in losses],
        "weights": hashlib.sha256(weights).hexdigest(),
    }
    path = args.out / f"rank-{os.environ.get('RANK', '0')}.json"
    path.write_text(json.dumps({**result, **more}, indent=1), encoding="utf-8")
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
