"""Hugging Face Accelerate: a prepared model's forward, `Accelerator.backward`, the prepared optimizer's step.

In a block of `Accelerator.accumulate` the forward is all that comes before the backward: a model that is compiled
after it was prepared tells nothing itself.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import ModuleType
from typing import Any

from energyopt.applier.adapters.interface import Adapter, Hooks
from energyopt.applier.adapters.loops import LOOP, loop_facts
from energyopt.applier.adapters.patching import Function, framework_name, require, wrap
from energyopt.applier.runtime.facts import RunFacts

_NEEDED = dict.fromkeys(("prepare", "prepare_model", "accumulate", "backward"), ())


def install(module: ModuleType, hooks: Hooks) -> None:
    """Hook `accelerate.accelerator`.

    Raises:
        MissingHookError: this version lacks a method that the hooks need.
    """
    framework = framework_name("accelerate")
    require(framework, module, {"Accelerator": (), "AcceleratedOptimizer": ()})
    require(framework, module.Accelerator, _NEEDED)
    require(framework, module.AcceleratedOptimizer, {"step": ()})
    for name in ("prepare", "prepare_model"):
        wrap(module.Accelerator, name, partial(_hook_prepare, hooks))
    wrap(module.Accelerator, "accumulate", partial(_hook_accumulate, hooks))
    wrap(module.Accelerator, "backward", _hook_backward)
    wrap(module.AcceleratedOptimizer, "step", _hook_step)


def _hook_prepare(hooks: Hooks, original: Function) -> Function:
    def prepare(accelerator: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(accelerator, *args, **kwargs)
        for prepared in result if isinstance(result, tuple) else (result,):
            if isinstance(prepared, sys.modules["torch"].nn.Module):
                _watch(prepared, accelerator, hooks)
        return result

    return prepare


def _watch(model: Any, accelerator: Any, hooks: Hooks) -> None:
    """Have the model tell when it runs; it may have been prepared, and watched, before."""
    if any(isinstance(hook, _ForwardBegins) for hook in model._forward_pre_hooks.values()):
        return
    begins = _ForwardBegins(accelerator, hooks)
    model.register_forward_pre_hook(begins)
    model.register_forward_hook(_ForwardEnds(begins), always_call=True)


class _ModelHook:
    """A forward hook that stays behind where its model is copied or saved whole.

    In its place goes a function that takes any arguments and returns None, which any Python can load.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")


class _ForwardBegins(_ModelHook):
    def __init__(self, accelerator: Any, hooks: Hooks) -> None:
        self._hooks = hooks
        self._microbatches = partial(_microbatches, accelerator)
        self._describe = partial(_describe, accelerator)
        self._is_compiling = sys.modules["torch"].compiler.is_compiling
        self._is_grad_enabled = sys.modules["torch"].is_grad_enabled
        self._token = 0
        self._evaluation: AbstractContextManager[None] | None = None

    def __call__(self, model: Any, _inputs: Any) -> None:
        if self._is_compiling():  # the model was compiled in place: nothing of ours belongs into its graph
            return
        if self._is_grad_enabled():
            self._token = LOOP.forward(self._hooks, self._describe, self._microbatches)
        elif not model.training and self._evaluation is None:
            self._evaluation = LOOP.evaluation(self._hooks, self._describe)
            self._evaluation.__enter__()

    def ended(self) -> None:
        """The forward is over, with an exception too."""
        evaluation, self._evaluation = self._evaluation, None
        if evaluation is not None:
            evaluation.__exit__(None, None, None)
        token, self._token = self._token, 0
        LOOP.end(token)


class _ForwardEnds(_ModelHook):
    def __init__(self, begins: _ForwardBegins) -> None:
        self._begins = begins

    def __call__(self, _model: Any, _inputs: Any, _output: Any) -> None:
        if not self._begins._is_compiling():
            self._begins.ended()


def _hook_accumulate(hooks: Hooks, original: Function) -> Function:
    @contextmanager
    def accumulate(accelerator: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        with original(accelerator, *args, **kwargs) as given:
            microbatches, describe = partial(_microbatches, accelerator), partial(_describe, accelerator)
            token = LOOP.forward(hooks, describe, microbatches)
            try:
                yield given
            finally:
                LOOP.end(token)

    return accumulate


def _microbatches(accelerator: Any) -> int:
    return int(accelerator.gradient_accumulation_steps)


def _describe(accelerator: Any) -> RunFacts:
    return loop_facts(framework_name("accelerate"), _microbatches(accelerator))


def _hook_backward(original: Function) -> Function:
    def backward(accelerator: Any, *args: Any, **kwargs: Any) -> Any:
        token = LOOP.backward()
        try:
            return original(accelerator, *args, **kwargs)
        finally:
            LOOP.end(token)

    return backward


def _hook_step(original: Function) -> Function:
    """While gradients are accumulated, `step` is called after each microbatch and does nothing."""

    def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        state = getattr(optimizer, "gradient_state", None)
        token = LOOP.optimizer() if getattr(state, "sync_gradients", True) else 0
        try:
            return original(optimizer, *args, **kwargs)
        finally:
            LOOP.end(token)

    return step


ADAPTER = Adapter(name="accelerate", module="accelerate.accelerator", install=install)
