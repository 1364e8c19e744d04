"""Lightning, as `lightning` or `pytorch_lightning`: a callback that `Trainer.fit` gets without being asked for."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from types import ModuleType
from typing import Any

from energyopt.applier.adapters.guarding import QUIETLY
from energyopt.applier.adapters.interface import Adapter, Hooks
from energyopt.applier.adapters.loops import LOOP, loop_facts
from energyopt.applier.adapters.patching import Function, framework_name, require, wrap
from energyopt.applier.runtime.facts import RunFacts

_NEEDED = dict.fromkeys(
    (
        "on_train_start",
        "on_train_batch_start",
        "on_before_backward",
        "on_after_backward",
        "on_before_optimizer_step",
        "on_train_batch_end",
        "on_validation_start",
        "on_validation_end",
        "on_train_end",
        "on_exception",
    ),
    ("trainer",),
)


def install(module: ModuleType, hooks: Hooks) -> None:
    """Hook `lightning.pytorch.trainer.trainer`, or the same of `pytorch_lightning`.

    Raises:
        MissingHookError: this version lacks a method or a callback that the hooks need.
    """
    distribution = "lightning" if module.__name__.startswith("lightning.") else "pytorch-lightning"
    framework = framework_name(distribution)
    require(framework, module, {"Trainer": (), "Callback": ()})
    require(framework, module.Trainer, {"fit": ()})
    require(framework, module.Callback, _NEEDED)
    wrap(module.Trainer, "fit", partial(_hook_fit, _callback_class(module.Callback), framework, hooks))


def _hook_fit(
    callback: Callable[[str, Hooks], Any], framework: str, hooks: Hooks, original: Function
) -> Function:
    def fit(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        ours = None
        with QUIETLY:
            ours = callback(framework, hooks)
            trainer.callbacks.insert(0, ours)  # an operation ends before other callbacks log or save
        try:
            return original(trainer, *args, **kwargs)
        finally:
            LOOP.stop()
            with QUIETLY:
                trainer.callbacks[:] = [one for one in trainer.callbacks if one is not ours]

    return fit


def _count(trainer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Microbatches of the iteration that a batch begins, by its place in the epoch: the last one may be shorter.

    args: as the callback gets them, the module, the batch and its place.
    """
    place = kwargs["batch_idx"] if "batch_idx" in kwargs else args[2]
    return int(min(trainer.accumulate_grad_batches, max(trainer.num_training_batches - place, 1)))


def _callback_class(base: Any) -> Callable[[str, Hooks], Any]:  # noqa: C901 - one short method per event
    """Make the callback on the framework's own class, which this module cannot import."""

    class _Reporter(base):  # type: ignore[misc]
        """Reports a batch's forward until its backward, that, and the optimizer step until the batch ends."""

        def __init__(self, framework: str, hooks: Hooks) -> None:
            super().__init__()
            self._framework = framework
            self._hooks = hooks
            self._token = 0
            self._evaluation: AbstractContextManager[None] | None = None

        def __reduce__(self) -> tuple[Any, ...]:
            return base, ()  # processes that are spawned get a callback that does nothing

        def _describe(self, trainer: Any) -> RunFacts:
            return loop_facts(self._framework, int(trainer.accumulate_grad_batches))

        def on_train_start(self, *_: Any, **__: Any) -> None:
            LOOP.stop()

        def on_train_batch_start(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
            self._ended()
            describe, microbatches = partial(self._describe, trainer), partial(_count, trainer, args, kwargs)
            self._token = LOOP.forward(self._hooks, describe, microbatches)

        def on_before_backward(self, *_: Any, **__: Any) -> None:
            self._token = LOOP.backward()

        def on_after_backward(self, *_: Any, **__: Any) -> None:
            self._ended()

        def on_before_optimizer_step(self, trainer: Any, *_: Any, **__: Any) -> None:
            # DeepSpeed counts the microbatches itself, is called after each, and has an adapter of its own
            with QUIETLY:
                if not getattr(trainer.strategy, "handles_gradient_accumulation", False):
                    self._token = LOOP.optimizer()

        def on_train_batch_end(self, *_: Any, **__: Any) -> None:
            self._ended()

        def on_validation_start(self, trainer: Any, *_: Any, **__: Any) -> None:
            with QUIETLY:
                self._evaluation = LOOP.evaluation(self._hooks, partial(self._describe, trainer))
                self._evaluation.__enter__()

        def on_validation_end(self, *_: Any, **__: Any) -> None:
            self._ended()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            LOOP.stop()

        def on_exception(self, *_: Any, **__: Any) -> None:
            self._ended()
            LOOP.stop()

        def _ended(self) -> None:
            evaluation, self._evaluation = self._evaluation, None
            with QUIETLY:
                if evaluation is not None:
                    evaluation.__exit__(None, None, None)
            token, self._token = self._token, 0
            LOOP.end(token)

    return _Reporter


ADAPTER = Adapter(name="lightning", module="lightning.pytorch.trainer.trainer", install=install)
