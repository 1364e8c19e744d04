"""Torch code of a whole partition: its communication by itself, or beside its compute kernels."""

from collections.abc import Callable
from itertools import chain
from typing import Any

from energyopt.profiler.workloads.interface import KernelUse, Overlap, Place, Prepare
from energyopt.profiler.workloads.layers.communication import Exchange, Work

Step = Callable[[], object]


def prepare_overlap(overlap: Overlap) -> Prepare | None:
    """What prepares a partition's kernels once, and gives the function that runs the partition once.

    The communication is begun before the compute kernel `launch` and joined after the last one, so that whatever
    follows in the stream finds it ended; where there is no `launch`, it runs first and to its end. None where a
    kernel has no code, so that the partition can only be simulated.

    On a GPU this relies on torch's rules for `async_op=True`: the collective waits for what the current stream
    holds at that moment, runs on the process group's own stream, and `wait` makes the current stream wait for it
    without blocking the host. Its tensors live as long as the prepared kernel, so that no memory is reused early.
    """
    talk = overlap.communication
    kernels = {use.kernel.name: use.kernel for use in overlap.compute}
    if talk is not None:
        kernels[talk.name] = talk
    if any(kernel.prepare is None for kernel in kernels.values()):
        return None

    def prepare(place: Place) -> Step:
        steps = {name: kernel.prepare(place) for name, kernel in kernels.items() if kernel.prepare}
        if talk is None or overlap.launch is None:
            first = [] if talk is None else [steps[talk.name]]
            return _in_order(first + _repeated(overlap.compute, steps))
        before = _repeated(overlap.compute[: overlap.launch], steps)
        beside = _repeated(overlap.compute[overlap.launch :], steps)
        return _overlapped(before, _starter(steps[talk.name], place), beside)

    return prepare


def _repeated(uses: tuple[KernelUse, ...], steps: dict[str, Step]) -> list[Step]:
    return list(chain.from_iterable([steps[use.kernel.name]] * use.count for use in uses))


def _in_order(steps: list[Step]) -> Step:
    def run() -> None:
        for step in steps:
            step()

    return run


def _overlapped(before: list[Step], start: Callable[[], Work], beside: list[Step]) -> Step:
    first, others = _in_order(before), _in_order(beside)

    def run() -> None:
        first()
        work = start()
        others()
        work.wait()

    return run


def _starter(exchange: Step, place: Place) -> Callable[[], Work]:
    """How to begin a communication; one of a user's own that only runs goes on a stream of its own."""
    if isinstance(exchange, Exchange):
        return exchange.start
    if place.device.type == "cuda":
        return _Aside(exchange, place).start
    return lambda: _Done(exchange())


class _Aside:
    """Runs a step on a second CUDA stream."""

    def __init__(self, step: Step, place: Place) -> None:
        self._step = step
        self._cuda: Any = place.torch.cuda
        self._stream = self._cuda.Stream(place.device)

    def start(self) -> Work:
        """Queue the step there, after what the current stream holds."""
        self._stream.wait_stream(self._cuda.current_stream(self._stream.device))
        with self._cuda.stream(self._stream):
            self._step()
        return self

    def wait(self) -> None:
        """Have the current stream wait for it."""
        self._cuda.current_stream(self._stream.device).wait_stream(self._stream)


class _Done:
    """What ran on a CPU when it was to begin."""

    def __init__(self, result: object) -> None:
        self.result = result

    def wait(self) -> object:
        """There is nothing to wait for."""
        return self.result
