"""Has the job use Megatron-Core's combined forward-backward, which otherwise needs GPUs and experts.

Megatron's own code decides what is combined with what. Only the layers' part is replaced: here a plan that runs
the chunk's forward and then the other chunk's backward, and streams that do nothing.
"""

from argparse import Namespace
from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import torch
from megatron.core.pipeline_parallel.utils import AbstractSchedulePlan
from torch.autograd.variable import Variable


class Still:
    """A stream or an event on which nothing happens."""

    def __init__(self, **_: Any) -> None:
        pass

    def wait(self, _: Any = None) -> None:
        pass

    record = wait


class ChunkPlan(AbstractSchedulePlan):
    """What a chunk does for one microbatch."""

    def __init__(self, compute: Callable[[], torch.Tensor]) -> None:
        self.compute, self.event = compute, Still()

    @staticmethod
    def run(
        f_schedule_plan: "ChunkPlan | None",
        b_schedule_plan: "ChunkPlan | None",
        b_grad: torch.Tensor | None = None,
        **_: Any,
    ) -> torch.Tensor | None:
        output = None
        if f_schedule_plan:
            output = f_schedule_plan.output = f_schedule_plan.compute()
        if b_schedule_plan:
            ends, gradients = (b_schedule_plan.output,), (b_grad,)
            Variable._execution_engine.run_backward(
                ends, gradients, False, False, (), allow_unreachable=True, accumulate_grad=True
            )
        return output


def combine(job: ModuleType) -> None:
    """Change the job's module."""
    torch.cuda.Stream, torch.cuda.current_stream = Still, Still
    torch.cuda.stream = lambda _: nullcontext()
    torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop = lambda _: None, lambda: None
    forward_step, build_chunks = job.forward_step, job.build_chunks

    def planned_step(data: Any, model: Any, return_schedule_plan: bool = False) -> tuple[Any, Any]:
        if not return_schedule_plan:
            return forward_step(data, model)
        return ChunkPlan(lambda: forward_step(data, model)[0]), job.average

    def combined_chunks(args: Namespace, *place: int) -> list[Any]:
        chunks = build_chunks(args, *place)
        chunks[0].config.overlap_moe_expert_parallel_comm = True
        return chunks

    job.forward_step, job.build_chunks = planned_step, combined_chunks
