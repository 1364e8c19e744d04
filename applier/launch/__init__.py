"""Starting a training script with the shim in it."""

__all__ = ["hooks", "inject", "lost", "start"]
