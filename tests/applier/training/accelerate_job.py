"""Trains a few layers in a loop of its own on Hugging Face Accelerate, on CPU; several ranks are data-parallel.

Started like any rank of torchrun, or alone. Writes what it computed, bit for bit, to OUT/rank-N.json.
"""

import copy
import io
import pickle

import torch
from accelerate import Accelerator
from small_job import BATCH, WIDTH, batches, connect, finish, layers, parser
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def dataset(count: int) -> TensorDataset:
    drawn = batches(count)
    return TensorDataset(*(torch.cat(parts) for parts in zip(*drawn, strict=True)))


def main(argv: list[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--fail-at", type=int, metavar="BATCH", help="its backward fails; training goes on"
    )
    arguments.add_argument("--compile", action="store_true", help="compile the prepared model in place")
    arguments.add_argument(
        "--copies", action="store_true", help="copy and save the model whole, use the copies"
    )
    args = arguments.parse_args(argv)
    connect(args)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=args.microbatches)
    model = nn.Sequential(*layers(args))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    per_rank = args.iterations * args.microbatches + args.short
    loader = DataLoader(dataset(per_rank * accelerator.num_processes), batch_size=BATCH)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    held_out = accelerator.prepare(DataLoader(dataset(1), batch_size=BATCH))
    if args.compile:
        model.compile(backend="eager", fullgraph=True)
    losses = []
    for number, (inputs, targets) in enumerate(loader):
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(inputs), targets)
            if number == args.fail_at:
                try:
                    accelerator.backward("a loss that is none")
                except TypeError:
                    continue
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        if args.copies:
            use_copies(model)
        if args.evaluate_every and (number + 1) % (args.evaluate_every * args.microbatches) == 0:
            evaluate(model, held_out)
    finish(args, accelerator.unwrap_model(model), losses)


def evaluate(model: nn.Module, loader: DataLoader) -> None:
    model.eval()
    for inputs, _ in loader:
        with torch.no_grad():
            model(inputs)
    model.train()


def use_copies(model: nn.Module) -> None:
    """Averages of weights are kept in a copy; some jobs save a model with its code."""
    stored = io.BytesIO()
    torch.save(model, stored)
    stored.seek(0)
    for other in (
        copy.deepcopy(model),
        torch.load(stored, weights_only=False),
        pickle.loads(pickle.dumps(model)),
    ):
        other(torch.zeros(BATCH, WIDTH)).sum().backward()


if __name__ == "__main__":
    main()
