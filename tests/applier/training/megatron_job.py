"""Trains a small GPT with Megatron-Core's own schedules: one pipeline rank, on CPU over gloo.

Started like any rank of torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT in the environment, or
`--rendezvous FILE`); every rank is a stage. Writes what it computed, bit for bit, to OUT/rank-N.json.
"""

import argparse
import hashlib
import json
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

# The tests' harness, no part of a training job: nothing here is compiled, and loading the compiler takes seconds.
torch.compile = lambda function=None, **_: function

with warnings.catch_warnings():  # that Apex and Transformer Engine are not installed
    warnings.simplefilter("ignore")
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.tensor_parallel import random as megatron_random
    from megatron.core.transformer import TransformerConfig

SEQUENCE, HIDDEN, VOCABULARY, MICROBATCH_SIZE = 8, 16, 32, 2


def pretend_cuda() -> None:
    """The tests' harness, no part of a training job: what the schedules ask of CUDA is answered by the CPU."""
    zeros = torch.zeros
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.synchronize = lambda *_: None
    torch.zeros = lambda *a, **k: zeros(*a, **{**k, "device": "cpu"} if k.get("device") == "cuda" else k)


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


def build_chunks(args: argparse.Namespace, stage: int, stages: int) -> list[GPTModel]:
    layers = args.layers_per_chunk * stages * args.chunks
    config = TransformerConfig(
        num_layers=layers,
        hidden_size=HIDDEN,
        num_attention_heads=2,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        use_cpu_initialization=True,
        pipeline_dtype=torch.float32,
        pipeline_model_parallel_size=stages,
        virtual_pipeline_model_parallel_size=args.chunks if args.chunks > 1 else None,
        microbatch_group_size_per_vp_stage=args.group_size,
        deallocate_pipeline_outputs=True,  # as Megatron-LM's own pretraining does
    )
    return [build_chunk(args, config, chunk, stage, stages) for chunk in range(args.chunks)]


def build_chunk(
    args: argparse.Namespace, config: TransformerConfig, chunk: int, stage: int, stages: int
) -> GPTModel:
    place = chunk * stages + stage
    torch.manual_seed(1000 + place)
    model = GPTModel(
        config,
        get_gpt_layer_local_spec(),
        vocab_size=VOCABULARY,
        max_sequence_length=SEQUENCE,
        pre_process=place == 0,
        post_process=place == stages * args.chunks - 1,
        share_embeddings_and_output_weights=False,
        vp_stage=chunk if args.chunks > 1 else None,
    )
    if args.op_time_ms:
        for layer in model.decoder.layers:
            layer.register_forward_hook(
                lambda _module, _inputs, out: (Sleep.apply(out[0], args.op_time_ms / 1e3), *out[1:])
            )
    return model


def batches(seed: int) -> Iterator[torch.Tensor]:
    """Token sequences without end; every stage and chunk draws the same ones."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randint(VOCABULARY, (MICROBATCH_SIZE, SEQUENCE + 1), generator=generator)


def forward_step(data: Iterator[torch.Tensor], model: GPTModel) -> tuple[torch.Tensor, Any]:
    tokens = next(data)
    positions = torch.arange(SEQUENCE).expand(MICROBATCH_SIZE, -1)
    hidden_from_token = torch.ones(1, 1, SEQUENCE, SEQUENCE, dtype=torch.bool).triu(1)
    output = model(
        tokens[:, :-1].contiguous(), positions, hidden_from_token, labels=tokens[:, 1:].contiguous()
    )
    return output, average


def average(output: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    loss = output.mean()
    return loss, {"loss": loss.detach().clone()}


class Job:
    """One rank's model and data."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        stage, stages = parallel_state.get_pipeline_model_parallel_rank(), dist.get_world_size()
        self.chunks = build_chunks(args, stage, stages)
        self.weights = [weight for chunk in self.chunks for weight in chunk.parameters()]
        self.data = [batches(seed=1) for _ in self.chunks]
        self.held_out = [batches(seed=2) for _ in self.chunks]

    def run(self, microbatches: int, evaluate: bool = False) -> str:
        """Run an iteration, or an evaluation; the mean loss where this is the last stage, else 0."""
        reduced = get_forward_backward_func()(
            forward_step_func=forward_step,
            data_iterator=self.held_out if evaluate else self.data,
            model=self.chunks,
            num_microbatches=microbatches,
            seq_length=SEQUENCE,
            micro_batch_size=MICROBATCH_SIZE,
            forward_only=evaluate,
        )
        return float(sum(part["loss"].item() for part in reduced) / microbatches).hex()

    def train(self) -> dict[str, Any]:
        losses, evaluations = [], []
        for iteration in range(self.args.iterations):
            ramping = self.args.ramp_up and iteration < 2
            losses.append(self.run(self.args.ramp_up if ramping else self.args.microbatches))
            self.descend()
            if self.args.evaluate_every and (iteration + 1) % self.args.evaluate_every == 0:
                with torch.no_grad():
                    evaluations.append(self.run(self.args.microbatches, evaluate=True))
        return {"losses": losses, "evaluations": evaluations, "weights": self.digest()}

    @torch.no_grad()
    def descend(self) -> None:
        """Take a step down the gradient; `torch.optim` would load the compiler."""
        time.sleep(self.args.op_time_ms / 1e3)
        for weight in self.weights:
            weight.sub_(weight.grad, alpha=0.1)
            weight.grad = None

    def digest(self) -> str:
        """SHA-256 of all weights' bytes."""
        return hashlib.sha256(b"".join(w.detach().numpy().tobytes() for w in self.weights)).hexdigest()


def connect(args: argparse.Namespace) -> None:
    dist.init_process_group(
        "gloo",
        init_method=f"file://{args.rendezvous}" if args.rendezvous else "env://",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
    )
    parallel_state.initialize_model_parallel(
        pipeline_model_parallel_size=dist.get_world_size(),
        virtual_pipeline_model_parallel_size=args.chunks if args.chunks > 1 else None,
    )
    # The tracker for inference forks no random state, which on a CPU there is none of: nothing here drops out.
    megatron_random.initialize_rng_tracker(inference_rng_tracker=True)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for rank-N.json")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--chunks", type=int, default=1, help="model chunks per stage: 2 and more interleave")
    parser.add_argument(
        "--group-size", type=int, help="microbatches that a chunk runs in a row (interleaved)"
    )
    parser.add_argument("--layers-per-chunk", type=int, default=1)
    parser.add_argument(
        "--op-time-ms", type=float, default=0.0, help="time of each layer, forward and backward"
    )
    parser.add_argument("--evaluate-every", type=int, default=0, metavar="ITERATIONS")
    parser.add_argument("--ramp-up", type=int, default=0, help="microbatches of the first two iterations")
    parser.add_argument("--rendezvous", type=Path, help="file to meet at, in place of MASTER_ADDR")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    torch.set_num_threads(1)
    pretend_cuda()
    connect(args)
    result = Job(args).train()
    path = args.out / f"rank-{dist.get_rank()}.json"
    path.write_text(json.dumps(result, indent=1))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
