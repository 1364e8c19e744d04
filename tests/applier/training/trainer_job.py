"""Trains a few layers with the Trainer of Hugging Face Transformers, on CPU; several ranks are data-parallel.

Started like any rank of torchrun, or alone. Writes what it computed, bit for bit, to OUT/rank-N.json.
"""

import argparse
from typing import Any

import torch
from small_job import BATCH, batches, connect, finish, layers, parser
from torch import nn
from transformers import Trainer, TrainingArguments


class Model(nn.Module):
    """As the Trainer wants it: inputs by name, the loss first among the outputs."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers(args))
        self.losses: list[float] = []

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        loss = nn.functional.mse_loss(self.layers(inputs), labels)
        if self.training:
            self.losses.append(loss.item())
        return {"loss": loss}


class OwnStep(Trainer):
    """Trains by a step of its own, which never calls the Trainer's."""

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:  # noqa: ARG002
        model.train()
        loss = model(**inputs)["loss"] / self.args.gradient_accumulation_steps
        self.accelerator.backward(loss)
        return loss.detach()


def examples(count: int, seed: int = 1) -> list[dict[str, torch.Tensor]]:
    return [
        {"inputs": one, "labels": other}
        for inputs, targets in batches(count, seed)
        for one, other in zip(inputs, targets, strict=True)
    ]


def main(argv: list[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--epochs", type=int, default=1)
    arguments.add_argument("--own-step", action="store_true", help="a subclass with its own training step")
    args = arguments.parse_args(argv)
    connect(args)
    settings = TrainingArguments(
        output_dir=str(args.out),
        use_cpu=True,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        gradient_accumulation_steps=args.microbatches,
        num_train_epochs=args.epochs,
        eval_strategy="steps" if args.evaluate_every else "no",
        eval_steps=args.evaluate_every or None,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        logging_strategy="no",
        dataloader_pin_memory=False,
    )
    trainer = (OwnStep if args.own_step else Trainer)(
        model=Model(args),
        args=settings,
        train_dataset=examples((args.iterations * args.microbatches + args.short) * settings.world_size),
        eval_dataset=examples(2, seed=2),
    )
    trainer.train()
    finish(args, trainer.model, trainer.model.losses)


if __name__ == "__main__":
    main()
