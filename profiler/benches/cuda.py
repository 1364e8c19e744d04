"""Steps on a CUDA stream, launched in chunks so that the host stays free to poll and the GPU never runs dry."""

import math
import time
from collections import deque
from functools import partial
from typing import Any

from energyopt.profiler.benches.interface import Poll
from energyopt.profiler.benches.polling import Poller, now
from energyopt.profiler.benches.runners import Step

_CHUNK_S = 3e-3  # long against the launch of a chunk, short against the interval of polls
_IN_FLIGHT = 2
_MOST_PER_CHUNK = 256  # below what a stream's queue holds: a full queue blocks the launching thread
_PAUSE_S = 1e-4
_SPIN_CYCLES = 1_500_000  # about a millisecond at 1.5 GHz


class CudaRunner:
    """The runner of one CUDA device, on its current stream.

    A chunk is followed by an event. At most two chunks are in flight: while one runs the next is queued, and this
    thread polls until the first event has passed. How many steps make a chunk is learnt from the events' times.
    """

    def __init__(self, cuda: Any, device: Any) -> None:
        """`cuda` is the module `torch.cuda`."""
        self._cuda = cuda
        self._device = device
        self._step_s: float | None = None

    def forget(self) -> None:
        """The next kernel's time is learnt anew."""
        self._step_s = None

    def settle(self) -> None:
        """Wait for the whole device."""
        self._cuda.synchronize(self._device)

    def run(self, step: Step, repeats: int, poll: Poll | None) -> float:
        """Launch chunk after chunk; whatever is raised meanwhile, nothing is left running."""
        self.settle()
        start_s = now()
        try:
            self._launch_all(step, repeats, Poller(poll))
        finally:
            self.settle()
        return now() - start_s

    def spin(self) -> Step:
        """One thread of one SM that counts cycles; a blocked receive keeps a few SMs spinning likewise."""
        return partial(self._cuda._sleep, _SPIN_CYCLES)

    def close(self) -> None:
        """There is nothing to end."""

    def _launch_all(self, step: Step, repeats: int, poller: Poller) -> None:
        launched = 0
        marks: deque[tuple[Any, int]] = deque([(self._mark(), 0)])  # an event, and the steps that led to it
        while launched < repeats or len(marks) > 1:
            if launched < repeats and len(marks) <= _IN_FLIGHT:
                count = min(self._chunk(), repeats - launched)
                for _ in range(count):
                    step()
                launched += count
                marks.append((self._mark(), count))
                poller.visit()
            else:
                self._await(marks[1][0], poller)
                self._learn(marks)

    def _mark(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def _await(self, event: Any, poller: Poller) -> None:
        while not event.query():
            poller.visit()
            time.sleep(poller.pause_s(_PAUSE_S))

    def _learn(self, marks: "deque[tuple[Any, int]]") -> None:
        """Take the oldest chunk's time per step; event times are in milliseconds."""
        before, _ = marks.popleft()
        after, count = marks[0]
        self._step_s = before.elapsed_time(after) / 1e3 / count

    def _chunk(self) -> int:
        if not self._step_s:
            return 1
        return max(1, min(_MOST_PER_CHUNK, math.ceil(_CHUNK_S / self._step_s)))
