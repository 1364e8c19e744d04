"""GPUs behind one protocol: `interface`, real ones in `nvml`, one with a named lock. Standard library alone."""

__all__ = ["interface", "nvml", "site_lock"]
