"""Hooks into training frameworks, one module each. Standard library alone."""

__all__ = [
    "accelerate",
    "deepspeed",
    "guarding",
    "interface",
    "lightning",
    "loops",
    "megatron",
    "megatron_facts",
    "megatron_graphs",
    "megatron_steps",
    "patching",
    "registry",
    "torch_pipelining",
    "torch_schedules",
    "transformers",
]
