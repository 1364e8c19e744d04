"""DeepSpeed: the instructions of its pipeline engine, and the engine of jobs without a pipeline."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from types import ModuleType
from typing import Any

from energyopt.applier.adapters.guarding import QUIETLY, quiet_block
from energyopt.applier.adapters.interface import Adapter, Hooks
from energyopt.applier.adapters.loops import LOOP, loop_facts, operation
from energyopt.applier.adapters.patching import Function, framework_name, require, wrap
from energyopt.applier.runtime.facts import PlacedOp, RunFacts
from energyopt.applier.runtime.ranks import device_ordinal, rank_and_world_size
from energyopt.schemas.ops import OpKind

_PIPELINE = {"_exec_schedule": ("pipe_schedule",), "train_batch": (), "eval_batch": ()}
_PLAIN = dict.fromkeys(
    ("forward", "backward", "step", "gradient_accumulation_steps", "is_gradient_accumulation_boundary"), ()
)
_KINDS = {
    "ForwardPass": OpKind.FORWARD,
    "BackwardPass": OpKind.BACKWARD,
    "ReduceTiedGrads": OpKind.GRAD_SYNC,
    "ReduceGrads": OpKind.GRAD_SYNC,
    "OptimizerStep": OpKind.OPTIMIZER,
}
_OF_MICROBATCHES = ("ForwardPass", "BackwardPass")


def install(module: ModuleType, hooks: Hooks) -> None:
    """Hook `deepspeed.runtime.pipe.engine` and the engine that it builds on.

    Raises:
        MissingHookError: this version lacks a method that the hooks need.
    """
    framework = framework_name("deepspeed")
    require(framework, module, {"PipelineEngine": (), "DeepSpeedEngine": ()})
    pipeline, plain = module.PipelineEngine, module.DeepSpeedEngine
    require(framework, pipeline, _PIPELINE)
    require(framework, plain, _PLAIN)
    wrap(pipeline, "_exec_schedule", partial(_hook_schedule, hooks))
    wrap(pipeline, "train_batch", partial(_hook_batch, hooks, True))
    wrap(pipeline, "eval_batch", partial(_hook_batch, hooks, False))
    wrap(plain, "forward", partial(operation, partial(_forward, hooks, pipeline)))
    wrap(plain, "backward", partial(operation, partial(_backward, pipeline)))
    wrap(plain, "step", partial(operation, partial(_step, pipeline)))


class _Numbered:
    """Numbers a schedule's operations: an instruction names a buffer, and buffers are used again and again."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], int] = {}

    def op(self, instruction: Any) -> tuple[OpKind, int, int] | None:
        """Kind, microbatch and chunk that an instruction stands for; None for communication and loading."""
        kind = _KINDS.get(name := type(instruction).__name__)
        if kind is None:
            return None
        if name not in _OF_MICROBATCHES:
            return kind, 0, 0
        phase = getattr(instruction, "phase", 0)  # of DualPipeV: two chunks on every rank
        chunk = phase if isinstance(phase, int) else 0
        microbatch = self._seen.get((name, chunk), 0)
        self._seen[name, chunk] = microbatch + 1
        return kind, microbatch, chunk


class _WatchedSchedule:
    """A schedule whose instructions are reported as the engine takes them, one after the other.

    The engine looks each instruction's method up in a table of its own class, which subclasses copy and users
    change: whatever it runs, it runs between taking an instruction and asking for the next.
    """

    def __init__(self, schedule: Any, hooks: Hooks) -> None:
        self._schedule = schedule
        self._hooks = hooks
        self._numbered = _Numbered()
        self._open: OpKind | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._schedule, name)

    def __iter__(self) -> Iterator[Iterable[Any]]:
        return map(self._reported, self._schedule)

    def _reported(self, step: Iterable[Any]) -> Iterator[Any]:
        for instruction in step:
            with QUIETLY:
                self._taken(instruction)
            yield instruction
            if self._open is not OpKind.GRAD_SYNC:
                self.close()

    def _taken(self, instruction: Any) -> None:
        op = self._numbered.op(instruction)
        if op is None:
            self.close()
        elif not op[0] is self._open is OpKind.GRAD_SYNC:  # of tied and of other gradients: one operation
            self.close()
            self._open = op[0]
            self._hooks.begin(*op)

    def close(self) -> None:
        """End the operation under way."""
        if self._open is not None:
            self._open = None
            with QUIETLY:
                self._hooks.end()


def _hook_schedule(hooks: Hooks, original: Function) -> Function:
    def _exec_schedule(engine: Any, pipe_schedule: Any) -> Any:
        if not sys.modules["torch"].is_grad_enabled():  # evaluation
            return original(engine, pipe_schedule)
        watched = _WatchedSchedule(pipe_schedule, hooks)
        try:
            return original(engine, watched)
        finally:
            watched.close()

    return _exec_schedule


def _hook_batch(hooks: Hooks, training: bool, original: Function) -> Function:
    def batch(engine: Any, *args: Any, **kwargs: Any) -> Any:
        with quiet_block(lambda: _iteration(hooks, engine, training)):
            return original(engine, *args, **kwargs)

    return batch


def _iteration(hooks: Hooks, engine: Any, training: bool) -> AbstractContextManager[None]:
    return hooks.iteration(partial(_describe, engine), getattr(engine, "micro_batches", 0), training=training)


def _describe(engine: Any) -> RunFacts:
    rank, world_size = rank_and_world_size()
    make = getattr(engine, "_train_schedule", None)  # 0.19 and newer; before, there is but one schedule
    schedule = make() if make else None
    order = None if schedule is None else _order(schedule)
    return RunFacts(
        framework=framework_name("deepspeed"),
        rank=rank,
        world_size=world_size,
        stage=int(engine.stage_id),
        stages=int(engine.num_stages),
        chunks=1 + max((op.chunk for op in order), default=0) if order else 1,
        microbatches=int(engine.micro_batches),
        schedule="1f1b" if schedule is None or type(schedule).__name__ == "TrainSchedule" else None,
        tensor_parallel=int(engine.grid.model_parallel_size),
        data_parallel=int(engine.grid.data_parallel_size),
        device_ordinal=device_ordinal(),
        order=order,
    )


def _order(schedule: Iterable[Iterable[Any]]) -> tuple[PlacedOp, ...]:
    numbered = _Numbered()
    ops = (numbered.op(one) for step in schedule for one in step if type(one).__name__ in _OF_MICROBATCHES)
    return tuple(PlacedOp(kind=op[0], microbatch=op[1], chunk=op[2]) for op in ops if op)


def _forward(hooks: Hooks, pipeline: type, engine: Any) -> int:
    if isinstance(engine, pipeline) or not sys.modules["torch"].is_grad_enabled():
        return 0
    return LOOP.forward(hooks, partial(_describe_plain, engine), engine.gradient_accumulation_steps)


def _describe_plain(engine: Any) -> RunFacts:
    return loop_facts(framework_name("deepspeed"), int(engine.gradient_accumulation_steps()))


def _backward(pipeline: type, engine: Any) -> int:
    return 0 if isinstance(engine, pipeline) else LOOP.backward()


def _step(pipeline: type, engine: Any) -> int:
    """`step` is called after each microbatch and steps after the last."""
    last = not isinstance(engine, pipeline) and engine.is_gradient_accumulation_boundary()
    return LOOP.optimizer() if last else 0


ADAPTER = Adapter(name="deepspeed", module="deepspeed.runtime.pipe.engine", install=install)
