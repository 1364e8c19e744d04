"""The Trainer of Hugging Face Transformers.

Here are its training step, which begins a microbatch, be it a subclass's own, and its evaluation; backward and
optimizer step are those of Accelerate, which it stands on.
"""

import sys
from functools import partial
from types import ModuleType
from typing import Any

from energyopt.applier.adapters import accelerate
from energyopt.applier.adapters.guarding import QUIETLY
from energyopt.applier.adapters.interface import Adapter, Hooks
from energyopt.applier.adapters.loops import LOOP, loop_facts, operation
from energyopt.applier.adapters.patching import Function, framework_name, require, wrap
from energyopt.applier.runtime.facts import RunFacts

_NEEDED = ("train", "training_step", "evaluation_loop")


def install(module: ModuleType, hooks: Hooks) -> None:
    """Hook `transformers.trainer`, and Accelerate where it is not hooked yet.

    Raises:
        MissingHookError: this version, or its Accelerate, lacks a method that the hooks need.
    """
    framework = framework_name("transformers")
    require(framework, module, {"Trainer": ()})
    require(framework, module.Trainer, dict.fromkeys(_NEEDED, ()))
    below = sys.modules.get("accelerate.accelerator", ModuleType("accelerate.accelerator"))
    accelerate.install(below, hooks)
    wrap(module.Trainer, "train", partial(_hook_train, hooks))
    _hook_training_step(module.Trainer, hooks)
    wrap(module.Trainer, "evaluation_loop", partial(_hook_evaluation, hooks))


def _hook_train(hooks: Hooks, original: Function) -> Function:
    def train(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        with QUIETLY:
            _hook_training_step(type(trainer), hooks)
        with LOOP.driven():
            return original(trainer, *args, **kwargs)

    return train


def _hook_training_step(trainer_class: type, hooks: Hooks) -> None:
    def begin(trainer: Any) -> int:
        return LOOP.forward(hooks, partial(_describe, trainer), partial(_microbatches, trainer))

    wrap(trainer_class, "training_step", partial(operation, begin))


def _hook_evaluation(hooks: Hooks, original: Function) -> Function:
    def evaluation_loop(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        with LOOP.evaluation(hooks, partial(_describe, trainer)):
            return original(trainer, *args, **kwargs)

    return evaluation_loop


def _microbatches(trainer: Any) -> int:
    """Of this step: the last one of an epoch may have fewer, which newer versions say."""
    now = getattr(trainer, "current_gradient_accumulation_steps", None)
    return int(now or trainer.args.gradient_accumulation_steps)


def _describe(trainer: Any) -> RunFacts:
    return loop_facts(framework_name("transformers"), int(trainer.args.gradient_accumulation_steps))


ADAPTER = Adapter(name="transformers", module="transformers.trainer", install=install)
