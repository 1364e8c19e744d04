"""Trains a small network with the schedules of torch.distributed.pipelining: one rank, on CPU over gloo.

Started like any rank of torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT in the environment, or
`--rendezvous FILE`). Several schedules train one after the other, each from the same start. Writes what each
computed, bit for bit, to OUT/SCHEDULE/rank-N.json, and its order to schedule.csv beside, if PyTorch lists one.
"""

import argparse
import csv
import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import (
    PipelineScheduleSingle,
    _PipelineScheduleRuntime,
    get_schedule_class,
)

WIDTH, MICROBATCH_SIZE = 8, 2
V_SHAPED = (
    "ZBVZeroBubble",
    "DualPipeV",
)  # 2.13 cannot evaluate these: they pass gradients that are not there
SINGLE = ("GPipe", "1F1B")


class Sleep(torch.autograd.Function):
    """Passes its input on, and its gradient back, after a while: work of a steady length on a noisy machine."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor, seconds: float, asleep: bool) -> torch.Tensor:
        context.seconds = seconds
        if asleep:
            time.sleep(seconds)
        return value.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        time.sleep(context.seconds)
        return gradient, None, None


class Layer(nn.Module):
    """Takes the same time forward, backward for the input and backward for the weights."""

    def __init__(self, place: int, seconds: float) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1000 + place)
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH, generator=generator) / WIDTH**0.5)
        self.seconds = seconds

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        weight = self.weight
        if self.seconds:
            value, weight = Sleep.apply(value, self.seconds, True), Sleep.apply(weight, self.seconds, False)
        return torch.tanh(value @ weight)


class Job:
    """One rank's stages, data and optimizer for one schedule."""

    def __init__(self, args: argparse.Namespace, schedule: str) -> None:
        self.args = args
        self.evaluate_every = 0 if schedule in V_SHAPED else args.evaluate_every
        self.generator = torch.Generator().manual_seed(1)  # all ranks draw the same batches
        rank, ranks = dist.get_rank(), dist.get_world_size()
        places, count = place_stages(schedule, rank, ranks, args.chunks)
        stages = [
            PipelineStage(Layer(place, args.op_time_ms / 1e3), place, count, torch.device("cpu"))
            for place in places
        ]
        self.first, self.last = 0 in places, count - 1 in places
        self.parameters = [parameter for stage in stages for parameter in stage.submod.parameters()]
        self.optimizer = torch.optim.SGD(self.parameters, lr=0.1)
        self.schedule = build_schedule(schedule, stages, args.microbatches)

    def run(self, evaluate: bool = False) -> list[str]:
        """Run an iteration, or an evaluation; the microbatches' losses where the last stage is."""
        shape = (self.args.microbatches * MICROBATCH_SIZE, WIDTH)
        inputs, target = (torch.randn(shape, generator=self.generator) for _ in range(2))
        losses: list[torch.Tensor] = []
        run = self.schedule.eval if evaluate else self.schedule.step
        ends = {"target": target, "losses": losses} if self.last else {}
        run(*([inputs] if self.first else []), **ends)
        return [loss.item().hex() for loss in losses]

    def train(self) -> dict[str, Any]:
        losses, evaluations = [], []
        for iteration in range(self.args.iterations):
            losses.append(self.run())
            self.optimizer.step()
            time.sleep(self.args.op_time_ms / 1e3)
            self.optimizer.zero_grad()
            if self.evaluate_every and (iteration + 1) % self.evaluate_every == 0:
                with torch.no_grad():
                    evaluations.append(self.run(evaluate=True))
        return {"losses": losses, "evaluations": evaluations, "weights": self.digest()}

    def digest(self) -> str:
        """SHA-256 of all weights' bytes."""
        weights = [parameter.detach().numpy().tobytes() for parameter in self.parameters]
        return hashlib.sha256(b"".join(weights)).hexdigest()


def place_stages(schedule: str, rank: int, ranks: int, chunks: int) -> tuple[list[int], int]:
    """This rank's stages in the model's order, and the number of all."""
    if schedule.endswith(".csv"):
        with Path(schedule).open(newline="") as file:
            rows = [
                {int(place) for place in re.findall(r"(\d+)[FBIW]\d", ",".join(row))}
                for row in csv.reader(file)
            ]
        return sorted(rows[rank]), len(set().union(*rows))
    if schedule in SINGLE:
        return [rank], ranks
    if schedule in V_SHAPED:
        return [rank, 2 * ranks - 1 - rank], 2 * ranks
    return list(range(rank, ranks * chunks, ranks)), ranks * chunks


def build_schedule(name: str, stages: list[PipelineStage], microbatches: int) -> Any:
    loss = nn.functional.mse_loss
    if name.endswith(".csv"):
        schedule = _PipelineScheduleRuntime(stages, microbatches, loss_fn=loss)
        schedule._load_csv(name)
        return schedule
    kind = get_schedule_class(name)
    return kind(stages[0] if issubclass(kind, PipelineScheduleSingle) else stages, microbatches, loss_fn=loss)


def train(args: argparse.Namespace, name: str) -> None:
    job = Job(args, name)
    out = args.out / Path(name).stem
    out.mkdir(parents=True, exist_ok=True)
    if dist.get_rank() == 0 and isinstance(job.schedule, _PipelineScheduleRuntime):
        job.schedule._dump_csv(str(out / "schedule.csv"), format="compute_only")
    (out / f"rank-{dist.get_rank()}.json").write_text(json.dumps(job.train(), indent=1))


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for what was computed")
    parser.add_argument(
        "--schedule", nargs="+", default=["1F1B"], help="PyTorch's names, without `Schedule`, or CSV files"
    )
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument(
        "--chunks", type=int, default=2, help="stages per rank, where the schedule leaves it open"
    )
    parser.add_argument("--op-time-ms", type=float, default=0.0, help="time of each operation")
    parser.add_argument("--evaluate-every", type=int, default=0, metavar="ITERATIONS")
    parser.add_argument("--rendezvous", type=Path, help="file to meet at, in place of MASTER_ADDR")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{args.rendezvous}" if args.rendezvous else "env://",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
    )
    for name in args.schedule:
        train(args, name)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
