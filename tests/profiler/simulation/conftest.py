"""Kernels of each sort, and the board most tests look at."""

import pytest

from energyopt.profiler.simulation.gpus import GPUS
from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.workloads.interface import Collective, Communication, Kernel

SIDE = 8192


@pytest.fixture
def a100() -> GpuSpec:
    return GPUS["a100-sxm4-80gb"]


@pytest.fixture
def product() -> Kernel:
    """A large matrix product: bound by the matrix units."""
    return Kernel(name="product", flops=2.0 * SIDE**3, memory_bytes=6.0 * SIDE**2, matrix=True)


@pytest.fixture
def stream() -> Kernel:
    """A copy of 2 GB: bound by memory."""
    return Kernel(name="stream", flops=1e9, memory_bytes=4e9)


@pytest.fixture
def all_reduce() -> Kernel:
    """1 GB over 8 GPUs."""
    communication = Communication(
        collective=Collective.ALL_REDUCE, message_bytes=1e9, group="tensor", ranks=8
    )
    return Kernel(name="all_reduce", flops=0.0, memory_bytes=2e9, communication=communication)
