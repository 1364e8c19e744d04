"""Trains a few layers with DeepSpeed on CPU over gloo: pipelined (a stage per rank), DualPipeV, or data-parallel.

Started like any rank of torchrun. Writes what it computed, bit for bit, to OUT/rank-N.json.
"""

import argparse
import os
from itertools import cycle

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.pipe import PipelineModule
from deepspeed.runtime.pipe.dualpipev import DualPipeVModule
from small_job import BATCH, batches, connect, finish, layers, parser
from torch import nn

# The tests' harness, no part of a training job: gloo does, where DeepSpeed would compile collectives of its own.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def start_engine(args: argparse.Namespace, model: nn.Module, replicas: int) -> deepspeed.DeepSpeedEngine:
    config = {
        "train_batch_size": BATCH * args.microbatches * replicas,
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_accumulation_steps": args.microbatches,
        "steps_per_print": 10**9,
    }
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]


def train_pipeline(args: argparse.Namespace, kind: type[PipelineModule]) -> None:
    model = kind(
        layers=layers(args),
        num_stages=dist.get_world_size(),
        loss_fn=nn.MSELoss(),
        partition_method="uniform",
    )
    engine = start_engine(args, model, replicas=1)
    data, held_out = cycle(batches(16)), cycle(batches(16, seed=2))
    losses, evaluations = [], []
    for iteration in range(args.iterations):
        losses.append(engine.train_batch(data))
        if args.evaluate_every and (iteration + 1) % args.evaluate_every == 0:
            evaluations.append(float(engine.eval_batch(held_out)).hex())
    finish(args, model, losses, evaluations=evaluations)


def train_plain(args: argparse.Namespace) -> None:
    model = nn.Sequential(*layers(args))
    engine = start_engine(args, model, replicas=dist.get_world_size())
    data, losses = cycle(batches(16, seed=dist.get_rank())), []
    for iteration in range(args.iterations):
        for _ in range(args.microbatches):
            inputs, targets = next(data)
            loss = nn.functional.mse_loss(engine(inputs), targets)
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
        if args.evaluate_every and (iteration + 1) % args.evaluate_every == 0:
            with torch.no_grad():
                engine(inputs)
    finish(args, model, losses)


def main(argv: list[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--engine", choices=("pipeline", "dualpipev", "plain"), default="pipeline")
    args = arguments.parse_args(argv)
    connect(args, always=True)
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False)
    if args.engine == "plain":
        train_plain(args)
    else:
        train_pipeline(args, DualPipeVModule if args.engine == "dualpipev" else PipelineModule)


if __name__ == "__main__":
    main()
