"""Where kernels run: with torch on a CUDA device or a CPU, or in the virtual time of a simulated GPU."""

__all__ = [
    "blind",
    "cuda",
    "feeding",
    "interface",
    "polling",
    "runners",
    "simulated",
    "threads",
    "torch_bench",
    "torch_import",
]
