"""PyTorch's `torch.distributed.pipelining`, 2.5 and later: all schedules run their operations by a stage's methods.

Operations are those of the schedule's own CSV, so that a plan made from it fits: what `(3F1;3B0)OVERLAP_F_B`
runs is one operation. The loss belongs to the last stage's forward. Stage 0 has no gradient to pass on, so
PyTorch leaves all the work of a split backward to its backward for the weights.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from energyopt.applier.adapters.guarding import QUIETLY, quiet_block
from energyopt.applier.adapters.interface import Adapter, Hooks, MissingHookError
from energyopt.applier.adapters.patching import Function, is_hooked, passing_for
from energyopt.applier.adapters.torch_schedules import (
    METHODS,
    Call,
    Program,
    describe,
    executed_actions,
    local_stages,
    missing_points,
    read_program,
)
from energyopt.applier.runtime.facts import RunFacts
from energyopt.schemas.ops import Op, OpKind

_IDLE = Program(None, {}, {}, {})
_LOSS, _FUNCTION = object(), object()  # what ends an operation, where it is not the call that began it


class _Operations:
    """Reports the operations of the schedule that runs, one at a time."""

    def __init__(self, module: ModuleType, hooks: Hooks) -> None:
        self._forward_only = getattr(module, "_ScheduleForwardOnly", ())
        self._hooks = hooks
        self._programs: WeakKeyDictionary[Any, Program] = WeakKeyDictionary()
        self._program = _IDLE  # while no training step runs
        self._last_stage = 0
        self._end: object = None  # what ends the operation under way

    @contextmanager
    def iteration(self, schedule: Any) -> Iterator[None]:
        with quiet_block(lambda: self._entered(schedule)):
            try:
                yield
            finally:
                self._program = _IDLE
                self._close()

    def _entered(self, schedule: Any) -> AbstractContextManager[None]:
        training = schedule._has_backward and not isinstance(schedule, self._forward_only)
        with suppress(Exception):  # a subclass of another shape trains on, its operations unseen
            self._last_stage = local_stages(schedule)[0].num_stages - 1
            self._program = self._program_of(schedule) if training else _IDLE
        facts = functools.partial(self._describe, schedule)
        return self._hooks.iteration(facts, schedule._n_microbatches, training=training)

    def begin(self, call: Call) -> None:
        kind, stage, microbatch = call
        chunk = self._program.chunk_of.get(stage)
        if self._end is _LOSS:  # this schedule has left the loss out
            self._close()
        if chunk is None or self._end is not None:  # no training, or a part of what is under way
            return
        if call in self._program.joined:
            self._begin_op(*self._program.joined[call])
            return
        self._end = _LOSS if kind is OpKind.FORWARD and stage == self._last_stage else call
        self._hooks.begin(kind, microbatch, chunk)

    def end(self, end: object) -> None:
        if end is not None and self._end == end:
            self._close()

    @contextmanager
    def function(self, action: Any) -> Iterator[None]:
        """Around what a user registered to run in the place of `action`."""
        with QUIETLY:
            op = self._program.ops.get(action)
            if op is not None:
                self.end(_LOSS)
                self._begin_op(op, _FUNCTION)
        try:
            yield
        finally:
            self.end(_FUNCTION)

    def _begin_op(self, op: Op, end: object) -> None:
        self._end = end
        self._hooks.begin(op.kind, op.microbatch, op.chunk, op.backward_chunk, op.backward_microbatch)

    def _close(self) -> None:
        if self._end is not None:
            self._end = None
            with QUIETLY:
                self._hooks.end()

    def _describe(self, schedule: Any) -> RunFacts:
        return describe(schedule, self._program_of(schedule))

    def _program_of(self, schedule: Any) -> Program:
        program = self._programs.get(schedule)
        if program is None or program.actions is not executed_actions(schedule):  # a CSV can be loaded later
            program = self._programs[schedule] = read_program(schedule)
        return program


def install(module: ModuleType, hooks: Hooks) -> None:
    """Hook `torch.distributed.pipelining.schedules`; a second call does nothing.

    Raises:
        MissingHookError: this version lacks something; nothing was hooked.
    """
    if missing := missing_points(module):
        version = getattr(sys.modules.get("torch"), "__version__", "of unknown version")
        raise MissingHookError(
            f"torch {version}: pipelining lacks {', '.join(missing)}, so its operations cannot be told apart; "
            "2.5 to 2.13 have what a plan needs"
        )
    if is_hooked(module.PipelineScheduleMulti.step):
        return
    for owner, name, wrapper in list(_wrappers(module, _Operations(module, hooks))):
        setattr(owner, name, passing_for(getattr(owner, name), wrapper))


def _wrappers(module: ModuleType, operations: _Operations) -> Iterator[tuple[Any, str, Function]]:
    """What goes where: class, method, and what takes the method's place."""
    stage, base = module._PipelineStageBase, module._PipelineSchedule
    yield stage, "forward_one_chunk", _run_op(operations, stage.forward_one_chunk, OpKind.FORWARD)
    yield stage, "backward_one_chunk", _run_op(operations, stage.backward_one_chunk, OpKind.BACKWARD)
    weight = _run_op(operations, stage.backward_weight_one_chunk, OpKind.BACKWARD_WEIGHT)
    yield stage, "backward_weight_one_chunk", weight
    yield base, "_maybe_compute_loss", _end_with_loss(operations, base._maybe_compute_loss)
    for schedule in (module.PipelineScheduleSingle, module.PipelineScheduleMulti):
        yield schedule, "step", _run_iteration(operations, schedule.step)
    runtime: Any = getattr(module, "_PipelineScheduleRuntime", None)
    if hasattr(runtime, "register_custom_function"):  # from 2.10
        yield (
            runtime,
            "register_custom_function",
            _register(operations, runtime.register_custom_function),
        )


def _reader(method: Function, name: str) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """Read an argument of a method's call by its name, however it was passed, or its default."""
    parameters = inspect.signature(method).parameters
    place, default = list(parameters).index(name) - 1, parameters[name].default  # `self` is not in `args`
    return lambda args, kwargs: args[place] if len(args) > place else kwargs.get(name, default)


def _run_op(operations: _Operations, method: Function, kind: OpKind) -> Function:
    names = METHODS[f"_PipelineStageBase.{method.__name__}"]
    microbatch = _reader(method, names[0])
    full = _reader(method, names[1]) if kind is OpKind.BACKWARD else None

    def run(stage: Any, *args: Any, **kwargs: Any) -> Any:
        call: Call | None = None
        with QUIETLY:
            split = full is not None and not full(args, kwargs)
            call = (OpKind.BACKWARD_INPUT if split else kind, stage.stage_index, microbatch(args, kwargs))
            operations.begin(call)
        try:
            return method(stage, *args, **kwargs)
        finally:
            operations.end(call)

    return run


def _end_with_loss(operations: _Operations, method: Function) -> Function:
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        finally:
            operations.end(_LOSS)

    return run


def _run_iteration(operations: _Operations, method: Function) -> Function:
    def step(schedule: Any, *args: Any, **kwargs: Any) -> Any:
        with operations.iteration(schedule):
            return method(schedule, *args, **kwargs)

    return step


def _register(operations: _Operations, method: Function) -> Function:
    def register(schedule: Any, computation_type: Any, custom_function: Function) -> Any:
        @functools.wraps(custom_function)
        def run(action: Any, *args: Any, **kwargs: Any) -> Any:
            with operations.function(action):
                return custom_function(action, *args, **kwargs)

        return method(schedule, computation_type, run)

    return register


ADAPTER = Adapter(name="torch-pipelining", module="torch.distributed.pipelining.schedules", install=install)
