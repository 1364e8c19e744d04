"""A bench: one GPU, the means to run kernels on it, and the time there (real or virtual)."""

from collections.abc import Callable
from typing import Protocol

from energyopt.applier.devices.interface import Device
from energyopt.profiler.workloads.interface import Kernel

Poll = Callable[[float], float]
"""Called with the time now; looks at the board and returns the time at which it wants to be called next."""


def titled(kernel: Kernel) -> str:
    """A kernel as errors name it: `kernel rope`, `partition forward mlp/2 overlapped, before norm`."""
    return f"{'kernel' if kernel.overlap is None else 'partition'} {kernel.name}"


class Bench(Protocol):
    """Where measuring happens. All times are seconds of one monotonic clock, `now_s`."""

    @property
    def device(self) -> Device:
        """The board that the kernels run on."""

    @property
    def last_idle_share(self) -> float:
        """Share of the last run's time in which the board may have waited for the host to launch a kernel.

        0 where kernels are not queued (a CPU, a simulated GPU). Above about 0.005 the run's time and energy are
        rather the host's than the kernel's.
        """

    def now_s(self) -> float:
        """The time; only differences mean something."""

    def sleep(self, duration_s: float, poll: Poll | None = None) -> None:
        """Let time pass with the board idle, polling meanwhile."""

    def prepare(self, kernel: Kernel) -> None:
        """Allocate what the kernel needs; drops what the kernel before it held.

        Raises:
            WorkloadError: it has no code for this bench, or its code fails (out of memory, say).
        """

    def run(self, kernel: Kernel, repeats: int, poll: Poll | None = None) -> float:
        """Run the prepared kernel `repeats` times back to back; return the seconds that took.

        The board is idle at the start and all work is done at the return: nothing is queued on either side.
        While the kernels run, `poll` is called about when it asked to be, never before.

        Raises:
            WorkloadError: the kernel fails.
        """

    def wait(self, duration_s: float, poll: Poll | None = None) -> None:
        """Have the board wait for a peer for this long, as a blocked receive does, polling meanwhile.

        Raises:
            WorkloadError: this bench cannot.
        """

    def close(self) -> None:
        """Free the memory and let go of the board; may be called twice."""
