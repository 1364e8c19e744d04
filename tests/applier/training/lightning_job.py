"""Trains a few layers with Lightning on CPU; several ranks are data-parallel.

Started like any rank of torchrun, or alone. Writes what it computed, bit for bit, to OUT/rank-N.json.
"""

import argparse
import importlib
import os
from typing import Any

import torch
from small_job import batches, connect, finish, layers, parser
from torch import nn
from torch.utils.data import DataLoader


def build_module(lightning: Any, args: argparse.Namespace) -> Any:
    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.Sequential(*layers(args))
            self.losses: list[float] = []
            self.automatic_optimization = not args.manual

        def training_step(self, batch: Any, index: int) -> Any:
            if index == args.skip:
                return None
            loss = mean_square_error(self.model, batch, bad=index == args.fail_at)
            self.losses.append(loss.item())
            if args.manual:
                self._step(loss, last=(index + 1) % args.microbatches == 0)
            return loss

        def validation_step(self, batch: Any, _index: int) -> Any:
            return mean_square_error(self.model, batch)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=0.01)

        def _step(self, loss: torch.Tensor, last: bool) -> None:
            self.manual_backward(loss / args.microbatches)
            if last:
                self.optimizers().step()
                self.optimizers().zero_grad()

    return Module()


def mean_square_error(model: nn.Module, batch: Any, bad: bool = False) -> torch.Tensor:
    if bad:
        raise ValueError("this batch is bad")
    inputs, targets = batch
    return nn.functional.mse_loss(model(inputs), targets)


def main(argv: list[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--package", choices=("lightning.pytorch", "pytorch_lightning"), default="lightning.pytorch"
    )
    arguments.add_argument("--manual", action="store_true", help="the module steps its optimizer itself")
    arguments.add_argument("--epochs", type=int, default=1)
    arguments.add_argument("--validate-every", type=int, metavar="BATCHES")
    arguments.add_argument("--skip", type=int, metavar="BATCH", help="gives no loss")
    arguments.add_argument("--fail-at", type=int, metavar="BATCH", help="raises; training starts anew")
    args = arguments.parse_args(argv)
    connect(args)
    lightning = importlib.import_module(args.package)
    module = build_module(lightning, args)
    count = args.iterations * args.microbatches + args.short
    data = DataLoader(batches(count, seed=int(os.environ.get("RANK", "0"))), batch_size=None)
    held_out = DataLoader(batches(2, seed=2), batch_size=None)
    trainer = build_trainer(lightning, args)
    try:
        trainer.fit(module, data, held_out)
    except ValueError:
        args.fail_at = None
        build_trainer(lightning, args).fit(module, data, held_out)
    callbacks = [type(callback).__name__ for callback in trainer.callbacks]
    finish(args, module.model, module.losses, callbacks=callbacks)


def build_trainer(lightning: Any, args: argparse.Namespace) -> Any:
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    return lightning.Trainer(
        accelerator="cpu",
        devices=world_size,
        strategy="ddp" if world_size > 1 else "auto",
        use_distributed_sampler=False,
        max_epochs=args.epochs,
        accumulate_grad_batches=1 if args.manual else args.microbatches,
        val_check_interval=args.validate_every,
        limit_val_batches=2 if args.validate_every else 0,
        num_sanity_val_steps=1 if args.validate_every else 0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=args.out,
    )


if __name__ == "__main__":
    main()
