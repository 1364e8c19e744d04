"""GPUs behind one protocol: what stands in `interface`, the real ones of `nvml`, and one whose lock is named. Standard library alone."""

__all__ = ["interface", "nvml", "site_lock"]
