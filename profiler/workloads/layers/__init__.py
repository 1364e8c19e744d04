"""The kernels of a transformer: what each computes and moves, and torch code that runs it."""

__all__ = [
    "activation",
    "attention",
    "communication",
    "embedding",
    "kernels",
    "linear",
    "loss",
    "norm",
    "residual",
    "rope",
    "sizes",
    "unfused_attention",
]
