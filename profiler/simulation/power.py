"""What a GPU draws at a clock: a part that does not depend on the temperature, and leakage, which does."""

from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.simulation.timing import communication_sms, matrix_flops, moved_bytes, sent_bytes
from energyopt.profiler.workloads.interface import Kernel


def voltage_v(spec: GpuSpec, sm_clock_mhz: float) -> float:
    """Supply voltage of the SMs at a clock."""
    curve = spec.voltage
    if sm_clock_mhz <= curve.knee_mhz:
        return curve.lowest_v
    rise = (sm_clock_mhz - curve.knee_mhz) / (spec.clocks.highest_mhz - curve.knee_mhz)
    return curve.lowest_v + (curve.highest_v - curve.lowest_v) * rise


def leakage_w(spec: GpuSpec, sm_clock_mhz: float) -> float:
    """Leakage at the reference temperature. It falls with the square of the voltage, as current falls too."""
    return spec.power.leakage_w * voltage_v(spec, sm_clock_mhz) ** 2


def activity_w(spec: GpuSpec, sm_clock_mhz: float, share: float) -> float:
    """Board and clock tree with this share of the SMs' activity; no work done."""
    power = spec.power
    clocked = power.active_w_per_ghz * sm_clock_mhz / 1e3 * voltage_v(spec, sm_clock_mhz) ** 2
    return power.board_w + share * clocked


def kernel_w(spec: GpuSpec, kernel: Kernel, sm_clock_mhz: float, time_s: float) -> float:
    """Power without leakage while a kernel runs that takes `time_s` at this clock."""
    on_chip_j = work_j(spec, kernel) * voltage_v(spec, sm_clock_mhz) ** 2
    return (
        activity_w(spec, sm_clock_mhz, busy_share(spec, kernel))
        + (on_chip_j + traffic_j(spec, kernel)) / time_s
    )


def work_j(spec: GpuSpec, kernel: Kernel) -> float:
    """Energy of one run's FLOPs at 1 V; matrix units are taken to draw the same a cycle at any data type."""
    if not kernel.matrix:
        return kernel.flops * spec.power.vector_flop_j
    slower = spec.throughput.matrix_flops["bfloat16"] / matrix_flops(spec, kernel)
    return kernel.flops * slower * spec.power.flop_j


def traffic_j(spec: GpuSpec, kernel: Kernel) -> float:
    """Energy of one run's traffic with memory and other GPUs, which no SM clock changes."""
    memory_j = moved_bytes(spec, kernel) * spec.power.memory_byte_j
    if kernel.communication is None:
        return memory_j
    return memory_j + sent_bytes(kernel.communication) * spec.power.link_byte_j


def busy_share(spec: GpuSpec, kernel: Kernel) -> float:
    """A communication kernel keeps few SMs busy; the others draw as in a blocked receive."""
    if kernel.communication is None:
        return 1.0
    sms = communication_sms(spec, kernel.communication) / spec.throughput.sms
    return sms + (1 - sms) * spec.power.wait_share
