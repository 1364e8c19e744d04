"""GPUs behind one protocol: what stands in `interface`, and the real ones of `nvml`. Standard library alone."""

__all__ = ["interface", "nvml"]
