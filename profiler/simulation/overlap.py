"""What a partition costs whose communication runs beside its compute kernels: pure functions, all clocks at once.

The rules, all assumed, since no board was at hand to fit them to:

- Compute kernels run in order, in one stream. The communication starts before kernel `launch`, on s of the GPU's S
  SMs, which push through what they push through alone; meanwhile compute kernels have the (S - s) / S of computing
  and of traffic on the chip that the other SMs bring.
- The communication reads and writes memory at its bytes over its own time. Compute kernels get what that leaves of
  the memory's bandwidth; where both want more than there is, both get it in proportion to what they want, and the
  communication becomes slower too.
- While a compute kernel is being launched, starts or ends, the communication has the memory for itself.
- If the communication outlasts the compute kernels, it ends alone, and draws what it draws alone.
- Energy of work and traffic is that of the kernels; board and clock tree draw over the time it all takes.

All rates are constant between two events (a kernel's work begins or ends, the communication ends), so that times
add up exactly. Arrays are by clock.

Power is the mean over a run. Where the board's limit binds, `costs.operate` slows the whole partition for the sake
of that mean: boards average over tens of milliseconds, in which a partition of a few repeats. A limit that its
overlapped part alone exceeds does not bind.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from energyopt.profiler.simulation.power import activity_w, busy_share, traffic_j, voltage_v, work_j
from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.simulation.timing import (
    communication_sms,
    fixed_s,
    kernel_time_s,
    memory_bytes_per_s,
    moved_bytes,
    work_s,
)
from energyopt.profiler.workloads.interface import Kernel, KernelUse, Overlap

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapCosts:
    """Of one run of a partition, by clock.

    computing_s: until the last compute kernel has ended, without a communication that ran first.
    alone_s: when the communication runs and no compute kernel does.
    power_w: mean over both, without leakage.
    """

    computing_s: Array
    alone_s: Array
    power_w: Array

    @property
    def time_s(self) -> Array:
        """Both together."""
        return self.computing_s + self.alone_s


def overlap_costs(spec: GpuSpec, overlap: Overlap) -> OverlapCosts:
    """What a partition takes and draws at each supported clock, lowest first.

    Raises:
        WorkloadError: the GPU has no matrix units for a kernel's data type.
    """
    clocks = np.array(spec.clocks.supported_mhz(), dtype=np.float64)
    computing_s, alone_s = _times(spec, overlap, clocks)
    energy_j = _kernels_j(spec, overlap) + _active_w(spec, 1.0) * computing_s
    if overlap.communication is not None:
        energy_j += _active_w(spec, busy_share(spec, overlap.communication)) * alone_s
    return OverlapCosts(computing_s=computing_s, alone_s=alone_s, power_w=energy_j / (computing_s + alone_s))


def _active_w(spec: GpuSpec, share: float) -> Array:
    return np.array([activity_w(spec, clock, share) for clock in spec.clocks.supported_mhz()])


def _kernels_j(spec: GpuSpec, overlap: Overlap) -> Array:
    """Energy of the kernels' work and traffic."""
    runs = [(use.kernel, use.count) for use in overlap.compute]
    if overlap.communication is not None:
        runs.append((overlap.communication, 1))
    on_chip_j = math.fsum(work_j(spec, kernel) * count for kernel, count in runs)
    off_chip_j = math.fsum(traffic_j(spec, kernel) * count for kernel, count in runs)
    volts = np.array([voltage_v(spec, clock) for clock in spec.clocks.supported_mhz()])
    return on_chip_j * volts**2 + off_chip_j


def _times(spec: GpuSpec, overlap: Overlap, clocks: Array) -> tuple[Array, Array]:
    """How long compute kernels run, and how long the communication does with none beside it."""
    talk, launch = overlap.communication, overlap.launch
    before = overlap.compute if talk is None or launch is None else overlap.compute[:launch]
    computing_s = np.zeros_like(clocks)
    for use in before:
        computing_s += use.count * kernel_time_s(spec, use.kernel, clocks)
    if talk is None:
        return computing_s, np.zeros_like(clocks)
    transfer = _Transfer(spec, talk, clocks)
    for use in overlap.compute[len(before) :]:
        computing_s += transfer.pass_beside(use)
    return computing_s, transfer.left * transfer.alone_s


class _Transfer:
    """A communication in progress: `left` is the part of it that is still to do."""

    def __init__(self, spec: GpuSpec, talk: Kernel, clocks: Array) -> None:
        assert talk.communication is not None
        self._spec, self._clocks = spec, clocks
        self._others = 1 - communication_sms(spec, talk.communication) / spec.throughput.sms
        self.alone_s = kernel_time_s(spec, talk, clocks)
        self._bytes_per_s = moved_bytes(spec, talk) / self.alone_s
        self.left = np.ones_like(clocks)

    def pass_beside(self, use: KernelUse) -> Array:
        """Go on while a compute kernel runs so many times; return how long it does."""
        spec, clocks = self._spec, self._clocks
        plain_s = work_s(spec, use.kernel, clocks, 1.0, memory_bytes_per_s(spec))
        idle_s = fixed_s(spec, use.kernel, clocks)
        beside_s, transfer_s = self._contention(use.kernel)
        took_s = np.zeros_like(clocks)
        for _ in range(use.count):
            both_s = np.minimum(beside_s, self.left * transfer_s)
            done = np.divide(both_s, beside_s, out=np.ones_like(both_s), where=beside_s > 0)
            took_s += both_s + (1 - done) * plain_s + idle_s
            self.left = np.maximum(0.0, self.left - both_s / transfer_s)
            self.left = np.maximum(0.0, self.left - idle_s / self.alone_s)
        return took_s

    def _contention(self, kernel: Kernel) -> tuple[Array, Array]:
        """How long the kernel's work and the whole communication take while both run."""
        if self._others <= 0:
            return np.full_like(self.alone_s, np.inf), self.alone_s
        spec, clocks, whole = self._spec, self._clocks, memory_bytes_per_s(self._spec)
        needs_s = work_s(spec, kernel, clocks, self._others, whole)
        wanted = np.divide(moved_bytes(spec, kernel), needs_s, out=np.zeros_like(needs_s), where=needs_s > 0)
        crowd = np.maximum(1.0, (wanted + self._bytes_per_s) / whole)
        given = np.maximum(whole - self._bytes_per_s, wanted / crowd)
        return work_s(spec, kernel, clocks, self._others, given), self.alone_s * crowd
