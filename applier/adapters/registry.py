"""Which adapter hooks which module; adapters are loaded when their framework is."""

from importlib import import_module

from energyopt.applier.adapters.interface import Adapter

_ADAPTERS = {
    "accelerate.accelerator": "accelerate",
    "deepspeed.runtime.pipe.engine": "deepspeed",
    "lightning.pytorch.trainer.trainer": "lightning",
    "megatron.core.pipeline_parallel.schedules": "megatron",
    "pytorch_lightning.trainer.trainer": "lightning",
    "torch.distributed.pipelining.schedules": "torch_pipelining",
    "transformers.trainer": "transformers",
}

WATCHED = tuple(_ADAPTERS)


def adapter_for(module: str) -> Adapter:
    """The adapter that hooks a module of a framework."""
    found: Adapter = import_module(f"energyopt.applier.adapters.{_ADAPTERS[module]}").ADAPTER
    return found
