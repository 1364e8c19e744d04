"""Trains on Hugging Face Accelerate on CPU, accumulating by hand, in ways that leave little to hook.

Started alone. Writes what it computed, bit for bit, to OUT/rank-0.json.
"""

from itertools import islice

import torch
from accelerate import Accelerator
from small_job import BATCH, WIDTH, batches, finish, parser
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(argv: list[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--script", action="store_true", help="prepare a scripted model")
    arguments.add_argument("--ahead", action="store_true", help="take the batches of an iteration at once")
    arguments.add_argument("--own-batches", action="store_true", help="take batches from no prepared loader")
    arguments.add_argument("--in-evaluation-mode", action="store_true", help="train a model in that mode")
    arguments.add_argument(
        "--late-training-mode", action="store_true", help="change to it after a batch came"
    )
    args = arguments.parse_args(argv)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=args.microbatches)
    plain = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    drawn = zip(*batches(args.iterations * args.microbatches), strict=True)
    own = DataLoader(TensorDataset(*(torch.cat(parts) for parts in drawn)), batch_size=BATCH)
    model, optimizer, loader = accelerator.prepare(
        torch.jit.script(plain) if args.script else plain,
        torch.optim.Adam(plain.parameters(), lr=0.01),
        own,
    )
    assert not model._forward_pre_hooks and not model._forward_hooks  # which CUDA graphs refuse
    torch.jit.script(accelerator.unwrap_model(model))
    model.train(not (args.in_evaluation_mode or args.late_training_mode))
    losses, batch = [], iter(own if args.own_batches else loader)
    for _ in range(args.iterations):
        taken = islice(batch, args.microbatches)
        for inputs, targets in list(taken) if args.ahead else taken:
            model.train(not args.in_evaluation_mode)
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    finish(args, plain, losses)


if __name__ == "__main__":
    main()
