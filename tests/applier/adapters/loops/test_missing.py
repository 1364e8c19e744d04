"""Versions that lack something are named, and left as they are."""

from types import ModuleType

import pytest

from energyopt.applier.adapters.interface import MissingHookError
from energyopt.applier.adapters.patching import require, wrap
from energyopt.applier.adapters.registry import adapter_for


class Framework:
    def step(self, loss: int) -> int:
        """Step."""
        return loss + 1


@pytest.mark.parametrize(
    ("module", "named"),
    [
        ("accelerate.accelerator", "accelerate.accelerator.Accelerator"),
        ("deepspeed.runtime.pipe.engine", "deepspeed.runtime.pipe.engine.PipelineEngine"),
        ("lightning.pytorch.trainer.trainer", "lightning.pytorch.trainer.trainer.Trainer"),
        ("pytorch_lightning.trainer.trainer", "pytorch_lightning.trainer.trainer.Trainer"),
        ("transformers.trainer", "transformers.trainer.Trainer"),
    ],
)
def test_a_version_without_a_hook_point_is_named(recorder, module: str, named: str) -> None:
    with pytest.raises(MissingHookError, match=named) as raised:
        adapter_for(module).install(ModuleType(module), recorder)
    assert module.partition(".")[0].replace("_", "-") in str(raised.value)


def test_functions_and_their_parameters_are_required() -> None:
    require("framework 1", Framework, {"step": ("loss",)})
    with pytest.raises(
        MissingHookError, match=r"framework 1 lacks Framework.train, Framework.step\(scale=\)"
    ):
        require("framework 1", Framework, {"train": (), "step": ("loss", "scale")})


def test_a_method_is_wrapped_once() -> None:
    calls = []

    def around(original):
        def step(*args, **kwargs):
            calls.append(args[1:])
            return original(*args, **kwargs)

        return step

    for _ in range(2):
        wrap(Framework, "step", around)
    assert Framework().step(3) == 4
    assert calls == [(3,)]
    assert (Framework.step.__name__, Framework.step.__doc__) == ("step", "Step.")
