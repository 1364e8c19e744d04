"""How a kernel is repeated while the board is polled: one way for threads of a CPU, one for a CUDA stream."""

from collections.abc import Callable
from typing import Protocol

from energyopt.profiler.benches.interface import Poll

Step = Callable[[], object]
"""Runs a kernel once, asynchronously on a GPU."""


class Runner(Protocol):
    """Runs steps on one device."""

    @property
    def idle_share(self) -> float:
        """Share of the last run's time in which the device may have waited for steps to be launched."""

    def forget(self) -> None:
        """Another kernel follows: drop what was learnt about the last one."""

    def release(self) -> None:
        """Give the driver back the memory that no kernel holds."""

    def settle(self) -> None:
        """Return when nothing is queued or running."""

    def run(self, step: Step, repeats: int, poll: Poll | None) -> float:
        """Run `step` so many times; return the seconds from an idle device to an idle device.

        Steps and polls may run in different threads; what either raises ends both and is raised here.
        """

    def spin(self) -> Step:
        """A step that keeps the device waiting, as a blocked receive does, for about a millisecond."""

    def close(self) -> None:
        """End threads; may be called twice."""


def wait_for(runner: Runner, duration_s: float, poll: Poll | None) -> None:
    """Repeat the spin step for at least this long, at most one step longer than planned."""
    runner.forget()  # what is known about a kernel does not hold for the spin step, nor the other way
    step, repeats, passed_s = runner.spin(), 1, 0.0
    while passed_s < duration_s:
        took_s = runner.run(step, repeats, poll)
        passed_s += took_s
        repeats = max(1, int((duration_s - passed_s) / (took_s / repeats)))
    runner.forget()
