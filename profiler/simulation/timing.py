"""How long a kernel takes at a clock. Pure functions, without noise and without any limit on power.

A clock is a number, or an array of clocks, for which there is then an array of times.
"""

import math
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.workloads.interface import Collective, Communication, Kernel
from energyopt.schemas.errors import WorkloadError

_BYTES_PER_MHZ = 1e6  # bytes per cycle times MHz gives MB/s

Number = TypeVar("Number", float, npt.NDArray[np.float64])


def kernel_time_s(spec: GpuSpec, kernel: Kernel, sm_clock_mhz: Number) -> Number:
    """Time of one run among many back to back.

    Computing, moving data and communicating overlap in part: their times are joined by a norm. Launching does not.

    Raises:
        WorkloadError: the GPU has no matrix units for the kernel's data type.
    """
    parts: tuple[Number | float, ...] = (
        _compute_s(spec, kernel, sm_clock_mhz, 1.0),
        _memory_s(spec, kernel, sm_clock_mhz, 1.0, memory_bytes_per_s(spec)),
        0.0 if kernel.communication is None else communication_s(spec, kernel.communication, sm_clock_mhz),
    )
    return fixed_s(spec, kernel, sm_clock_mhz) + _norm(parts, spec.throughput.overlap)


def fixed_s(spec: GpuSpec, kernel: Kernel, sm_clock_mhz: Number) -> Number:
    """The part of a kernel's time in which it does nothing: launching, starting and ending."""
    rates = spec.throughput
    return kernel.launches * (rates.launch_s + rates.tail_cycles / (sm_clock_mhz * 1e6))


def work_s(
    spec: GpuSpec, kernel: Kernel, sm_clock_mhz: Number, sm_share: float, bytes_per_s: Number | float
) -> Number:
    """The rest of a compute kernel's time, with this share of the SMs and this much of the memory's bandwidth.

    SMs bring their part of the computing and of the traffic on the chip.
    """
    parts = (
        _compute_s(spec, kernel, sm_clock_mhz, sm_share),
        _memory_s(spec, kernel, sm_clock_mhz, sm_share, bytes_per_s),
    )
    return _norm(parts, spec.throughput.overlap)


def memory_bytes_per_s(spec: GpuSpec) -> float:
    """What long kernels get from the memory."""
    return spec.throughput.memory_bytes_per_s * spec.throughput.memory_efficiency


def matrix_flops(spec: GpuSpec, kernel: Kernel) -> float:
    """Rated matrix FLOP/s at the boost clock for the kernel's data type.

    Raises:
        WorkloadError: there are no matrix units for it.
    """
    known = spec.throughput.matrix_flops
    if kernel.dtype not in known:
        raise WorkloadError(
            f"kernel {kernel.name} is of type {kernel.dtype}, for which the simulated {spec.name} has no matrix "
            f"units; it has them for {', '.join(sorted(known))}"
        )
    return known[kernel.dtype]


def moved_bytes(spec: GpuSpec, kernel: Kernel) -> float:
    """Traffic between GPU memory and chip in one run: the least that is needed, and what is read again."""
    reread = spec.throughput.reread_bytes_per_flop if kernel.matrix else 0.0
    return kernel.memory_bytes + kernel.flops * reread


def sent_bytes(communication: Communication) -> float:
    """What each rank sends in a ring.

    Source: NCCL tests, PERFORMANCE.md: bus bandwidth is 2(n-1)/n, (n-1)/n and 1 times the algorithm's.
    """
    share = (communication.ranks - 1) / communication.ranks
    factor = {
        Collective.ALL_REDUCE: 2 * share,
        Collective.ALL_GATHER: share,
        Collective.REDUCE_SCATTER: share,
        Collective.SEND_RECV: 1.0,
    }
    return communication.message_bytes * factor[communication.collective]


def communication_sms(spec: GpuSpec, communication: Communication) -> int:
    """The SMs that the communication kernel occupies."""
    asked = spec.link.default_sms if communication.sms is None else communication.sms
    return min(asked, spec.throughput.sms)


def communication_s(spec: GpuSpec, communication: Communication, sm_clock_mhz: Number) -> Number:
    """Time of the transfer: a latency for each step of the ring, then bytes at what link and SMs allow."""
    link = spec.link
    sms_bytes_per_s = (
        communication_sms(spec, communication) * link.bytes_per_cycle_per_sm * sm_clock_mhz * _BYTES_PER_MHZ
    )
    seconds_per_byte = _norm((1 / (link.bytes_per_s * link.efficiency), 1 / sms_bytes_per_s), 4.0)
    return _steps(communication) * link.latency_s + sent_bytes(communication) * seconds_per_byte


def _steps(communication: Communication) -> int:
    steps = communication.ranks - 1
    if communication.collective is Collective.ALL_REDUCE:
        return 2 * steps
    return 1 if communication.collective is Collective.SEND_RECV else steps


def _compute_s(spec: GpuSpec, kernel: Kernel, sm_clock_mhz: Number, sm_share: float) -> Number:
    rates = spec.throughput
    if kernel.matrix:
        flops = matrix_flops(spec, kernel) * rates.matrix_efficiency
    else:
        flops = rates.vector_flops * rates.vector_efficiency
    return kernel.flops / (flops * sm_clock_mhz / spec.clocks.boost_mhz * sm_share)


def _memory_s(
    spec: GpuSpec, kernel: Kernel, sm_clock_mhz: Number, sm_share: float, bytes_per_s: Number | float
) -> Number:
    chip = spec.throughput.chip_bytes_per_cycle * sm_clock_mhz * _BYTES_PER_MHZ * sm_share
    return moved_bytes(spec, kernel) * _norm((1 / bytes_per_s, 1 / chip), 2.0)


def _norm(parts: tuple[Number | float, ...], exponent: float) -> Number:
    terms: Any = parts
    found: Number
    if any(isinstance(part, np.ndarray) for part in parts):
        largest = reduce(np.maximum, terms)
        scale = np.where(largest > 0, largest, 1.0)
        found = scale * sum((part / scale) ** exponent for part in terms) ** (1 / exponent)
        return found
    found = largest = max(terms)
    if largest > 0:
        found = largest * math.pow(sum(math.pow(part / largest, exponent) for part in terms), 1 / exponent)
    return found
