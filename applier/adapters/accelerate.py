"""Hugging Face Accelerate: its loaders' batches, `Accelerator.accumulate`, `Accelerator.backward`, its optimizers.

Nothing is hung on a model, which may be scripted, captured into CUDA graphs or saved whole. A forward is what comes
between a batch (or the start of a block of `accumulate`) and the backward. In a job that has neither it is all that
comes after a step of the optimizer, so data loading too. Batches while no prepared model trains are evaluation.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import ModuleType
from typing import Any
from weakref import WeakSet

from energyopt.applier.adapters.guarding import QUIETLY
from energyopt.applier.adapters.interface import Adapter, Hooks
from energyopt.applier.adapters.loops import LOOP, loop_facts, operation
from energyopt.applier.adapters.patching import Function, framework_name, require, wrap
from energyopt.applier.runtime.facts import RunFacts

_NEEDED = dict.fromkeys(("prepare", "prepare_model", "accumulate", "backward"), ())
_LOADERS = ("DataLoaderShard", "DataLoaderDispatcher")


def install(module: ModuleType, hooks: Hooks) -> None:
    """Hook `accelerate.accelerator` and the loaders that it prepares.

    Raises:
        MissingHookError: this version lacks a method that the hooks need.
    """
    framework = framework_name("accelerate")
    require(framework, module, {"Accelerator": (), "AcceleratedOptimizer": ()})
    require(framework, module.Accelerator, _NEEDED)
    require(framework, module.AcceleratedOptimizer, {"step": ()})
    loaders = sys.modules.get("accelerate.data_loader", ModuleType("accelerate.data_loader"))
    require(framework, loaders, dict.fromkeys(_LOADERS, ()))
    for name in _LOADERS:
        require(framework, getattr(loaders, name), {"__iter__": ()})
    _hook(module, loaders, _Job(hooks))


def _hook(module: ModuleType, loaders: ModuleType, job: "_Job") -> None:
    for name in ("prepare", "prepare_model"):
        wrap(module.Accelerator, name, partial(_hook_prepare, job))
    for name in _LOADERS:
        wrap(getattr(loaders, name), "__iter__", partial(_hook_batches, job))
    wrap(module.Accelerator, "accumulate", partial(_hook_accumulate, job))
    wrap(module.Accelerator, "backward", partial(operation, job.backward, after=job.backward_ended))
    wrap(module.AcceleratedOptimizer, "step", partial(operation, job.step, after=job.step_ended))


class _Job:
    """What has been seen of a job. `owner` is what holds Accelerate's state: accelerator, loader or optimizer."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._models: WeakSet[Any] = WeakSet()
        self._evaluation: AbstractContextManager[None] | None = None
        self._waiting: dict[
            int, int
        ] = {}  # batches taken since the last step, without a backward; by iteration
        self._has_begins = False  # whether batches or blocks tell where forwards begin
        self._is_blind = False  # whether a backward came without
        self._modes_tell = True  # whether models in evaluation mode are no training

    def prepared(self, result: Any) -> None:
        """Remember the models among what `prepare` gives."""
        found = result if isinstance(result, tuple) else (result,)
        self._models.update(one for one in found if isinstance(one, sys.modules["torch"].nn.Module))

    def batches(self, owner: Any, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches; what the job does between two of them is told."""
        for batch in batches:
            with QUIETLY:
                self._taken(owner, id(batches))
            try:
                yield batch
            finally:
                self.leave_evaluation()

    def _taken(self, owner: Any, iteration: int) -> None:
        self.leave_evaluation()
        if LOOP.is_driven:
            return
        if not self._is_training():
            self._evaluation = LOOP.evaluation(self._hooks, partial(_describe, owner))
            self._evaluation.__enter__()
            return
        self._waiting[iteration] = self._waiting.get(iteration, 0) + 1
        self.begin(owner)

    def _is_training(self) -> bool:
        return sys.modules["torch"].is_grad_enabled() and (not self._modes_tell or self._may_train())

    def _may_train(self) -> bool:
        models = list(self._models)
        return not models or any(model.training for model in models)

    def leave_evaluation(self) -> bool:
        """The batch that was evaluated is done with; False if there was none."""
        evaluation, self._evaluation = self._evaluation, None
        if evaluation is not None:
            with QUIETLY:
                evaluation.__exit__(None, None, None)
        return evaluation is not None

    def begin(self, owner: Any) -> int:
        """A forward begins."""
        self.leave_evaluation()
        self._has_begins = True
        return self._forward(owner)

    def _forward(self, owner: Any) -> int:
        if LOOP.is_driven:
            return 0
        return LOOP.forward(self._hooks, partial(_describe, owner), partial(_microbatches, owner))

    def backward(self, owner: Any) -> int:
        """A backward begins."""
        if self.leave_evaluation():  # it was none
            self._modes_tell = self._may_train()
            self.begin(owner)
        if not self._has_begins:
            self._is_blind = True
            self._forward(owner)
        return LOOP.backward()

    def backward_ended(self, owner: Any) -> None:
        """Where several batches were taken at once, the next one's forward follows."""
        self._waiting = {key: count - 1 for key, count in self._waiting.items() if count > 1}
        if self._waiting and LOOP.expects_more:
            self._forward(owner)

    def step(self, optimizer: Any) -> int:
        """While gradients are accumulated, `step` is called after each microbatch and does nothing."""
        if not getattr(getattr(optimizer, "gradient_state", None), "sync_gradients", True):
            return 0
        self._waiting.clear()
        return LOOP.optimizer()

    def step_ended(self, optimizer: Any) -> None:
        """Where nothing else will tell of the next forward, it begins here."""
        if self._is_blind and not self._has_begins:
            self._forward(optimizer)


def _hook_prepare(job: _Job, original: Function) -> Function:
    def prepare(accelerator: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(accelerator, *args, **kwargs)
        with QUIETLY:
            job.prepared(result)
        return result

    return prepare


def _hook_batches(job: _Job, original: Function) -> Function:
    def batches(loader: Any) -> Iterator[Any]:
        return job.batches(loader, original(loader))

    return batches


def _hook_accumulate(job: _Job, original: Function) -> Function:
    @contextmanager
    def accumulate(accelerator: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        with original(accelerator, *args, **kwargs) as given:
            token = 0
            with QUIETLY:
                token = job.begin(accelerator)
            try:
                yield given
            finally:
                LOOP.end(token)

    return accumulate


def _microbatches(owner: Any) -> int:
    return int(owner.gradient_state.num_steps)


def _describe(owner: Any) -> RunFacts:
    return loop_facts(framework_name("accelerate"), _microbatches(owner))


ADAPTER = Adapter(name="accelerate", module="accelerate.accelerator", install=install)
