"""How long a kernel takes at a clock. Pure functions, without noise and without any limit on power."""

import math

from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.workloads.interface import Collective, Communication, Kernel
from energyopt.schemas.errors import WorkloadError

_BYTES_PER_MHZ = 1e6  # bytes per cycle times MHz gives MB/s


def kernel_time_s(spec: GpuSpec, kernel: Kernel, sm_clock_mhz: float) -> float:
    """Time of one run among many back to back.

    Computing, moving data and communicating overlap in part: their times are joined by a norm. Launching does not.

    Raises:
        WorkloadError: the GPU has no matrix units for the kernel's data type.
    """
    rates = spec.throughput
    parts = (
        _compute_s(spec, kernel, sm_clock_mhz),
        _memory_s(spec, kernel, sm_clock_mhz),
        0.0 if kernel.communication is None else communication_s(spec, kernel.communication, sm_clock_mhz),
    )
    fixed_s = kernel.launches * (rates.launch_s + rates.tail_cycles / (sm_clock_mhz * 1e6))
    return fixed_s + _norm(parts, rates.overlap)


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


def communication_s(spec: GpuSpec, communication: Communication, sm_clock_mhz: float) -> float:
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


def _compute_s(spec: GpuSpec, kernel: Kernel, sm_clock_mhz: float) -> float:
    rates = spec.throughput
    if kernel.matrix:
        flops = matrix_flops(spec, kernel) * rates.matrix_efficiency
    else:
        flops = rates.vector_flops * rates.vector_efficiency
    return kernel.flops / (flops * sm_clock_mhz / spec.clocks.boost_mhz)


def _memory_s(spec: GpuSpec, kernel: Kernel, sm_clock_mhz: float) -> float:
    rates = spec.throughput
    memory = rates.memory_bytes_per_s * rates.memory_efficiency
    chip = rates.chip_bytes_per_cycle * sm_clock_mhz * _BYTES_PER_MHZ
    return moved_bytes(spec, kernel) * _norm((1 / memory, 1 / chip), 2.0)


def _norm(parts: tuple[float, ...], exponent: float) -> float:
    largest = max(parts)
    if largest == 0:
        return 0.0
    return largest * math.pow(sum(math.pow(part / largest, exponent) for part in parts), 1 / exponent)
