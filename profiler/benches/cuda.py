"""Steps on a CUDA stream, launched in chunks well ahead of the GPU, so that it never runs dry unnoticed."""

import math
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any

from energyopt.profiler.benches.feeding import Chunk, idle_share
from energyopt.profiler.benches.interface import Poll
from energyopt.profiler.benches.polling import LONGEST_END_S, PollThread, now
from energyopt.profiler.benches.runners import Step

_CHUNK_S = 5e-3  # long against an event's microseconds
_IN_FLIGHT_S = 20e-3  # a host that does something else for 15 ms is not noticed
_FEWEST_IN_FLIGHT = 2
_MOST_PER_CHUNK = 256
_MOST_QUEUED = (
    1024  # about what a stream holds; what is launched beyond waits in the driver, which does no harm
)
_PAUSE_S = 1e-4
_SPIN_CYCLES = 1_500_000  # about a millisecond at 1.5 GHz


class CudaRunner:
    """The runner of one CUDA device, on its current stream.

    This thread only launches, a second one polls. A chunk is followed by an event; some 20 ms of chunks are in
    flight, less where a step is so short that 1024 of them end sooner, and never less than two chunks. How many
    steps make a chunk follows from the shortest time that a step was seen to take: a chunk that the GPU had to wait
    for takes longer, and learning from it would make the next one too small.
    """

    def __init__(self, cuda: Any, device: Any) -> None:
        """`cuda` is the module `torch.cuda`."""
        self._cuda = cuda
        self._device = device
        self._step_s = math.inf
        self._idle_share = 0.0
        self._hangs = False

    @property
    def idle_share(self) -> float:
        """See `feeding.idle_share`; of the last run."""
        return self._idle_share

    def forget(self) -> None:
        """The next kernel's time is learnt anew."""
        self._step_s = math.inf

    def release(self) -> None:
        """Empty torch's cache: blocks of other sizes would fragment what is free. It waits for what still runs."""
        if not self._hangs:
            self._cuda.empty_cache()

    def settle(self) -> None:
        """Wait for the whole device; can be interrupted while the current stream is busy."""
        self._await(_mark(self._cuda), PollThread(None))
        self._cuda.synchronize(self._device)

    def run(self, step: Step, repeats: int, poll: Poll | None) -> float:
        """Launch chunk after chunk; whatever is raised meanwhile, nothing is left running unless it hangs.

        The time is the events': when this thread gets to see the last one is up to the host's scheduler.
        """
        self.settle()
        with PollThread(poll) as looks:
            try:
                chunks = self._launch_all(step, repeats, looks)
                ended_s = now()
                self.settle()  # for what a step may have put on other streams without waiting for it
                rest_s = now() - ended_s
            except BaseException:
                self._abandon()
                raise
        self._idle_share = idle_share(chunks)
        return math.fsum(chunk.took_s for chunk in chunks) + rest_s

    def spin(self) -> Step:
        """One thread of one SM that counts cycles; a blocked receive keeps a few SMs spinning likewise."""
        return partial(self._cuda._sleep, _SPIN_CYCLES)

    def close(self) -> None:
        """There is nothing to end."""

    def _launch_all(self, step: Step, repeats: int, looks: PollThread) -> list[Chunk]:
        flight = _Flight(self._cuda)
        left = repeats
        while left or flight.chunks:
            looks.check()
            if not left or self._enough(flight):
                self._land(flight, looks)
                continue
            steps = min(self._chunk(), left)
            flight.launch(step, steps)
            if left == repeats:
                looks.begin()  # not before: starting a thread takes longer than launching a kernel
            left -= steps
        return flight.landed

    def _enough(self, flight: "_Flight") -> bool:
        if flight.chunks < _FEWEST_IN_FLIGHT:
            return False
        return flight.steps >= _MOST_QUEUED or flight.steps * self._step_s >= _IN_FLIGHT_S

    def _land(self, flight: "_Flight", looks: PollThread) -> None:
        self._await(flight.next_end(), looks)
        chunk = flight.land()
        self._step_s = min(self._step_s, chunk.took_s / chunk.steps)

    def _chunk(self) -> int:
        if not 0 < self._step_s < math.inf:
            return 1
        return max(1, min(_MOST_PER_CHUNK, math.ceil(_CHUNK_S / self._step_s)))

    def _await(self, event: Any, looks: PollThread) -> None:
        while not event.query():
            looks.check()
            time.sleep(_PAUSE_S)

    def _abandon(self) -> None:
        """Wait for what is queued, but not for ever: a collective whose peer has died never ends."""
        with suppress(
            RuntimeError
        ):  # from a GPU that failed: it runs nothing more, and the first error tells
            event, until_s = _mark(self._cuda), now() + LONGEST_END_S
            while not event.query():
                if now() >= until_s:
                    self._hangs = True
                    return
                time.sleep(_PAUSE_S)
            self._cuda.synchronize(self._device)


class _Flight:
    """The chunks of one run: those in flight, and those that landed."""

    def __init__(self, cuda: Any) -> None:
        self.landed: list[Chunk] = []
        self.steps = 0
        self._cuda = cuda
        self._sent: deque[tuple[int, bool, float]] = deque()
        self._sent_s = now()
        self._ends = deque([_mark(cuda)])  # of the chunk before the oldest in flight, and of all that are

    @property
    def chunks(self) -> int:
        """How many are in flight."""
        return len(self._sent)

    def launch(self, step: Step, steps: int) -> None:
        """Queue a chunk."""
        for _ in range(steps):
            step()
        self._ends.append(_mark(self._cuda))
        fed = not self._ends[-2].query()
        before_s, self._sent_s = self._sent_s, now()
        self._sent.append((steps, fed, self._sent_s - before_s))
        self.steps += steps

    def next_end(self) -> Any:
        """The event that ends the oldest chunk in flight."""
        return self._ends[1]

    def land(self) -> Chunk:
        """Take the oldest chunk, which has ended; event times are in milliseconds."""
        before = self._ends.popleft()
        steps, fed, exposed_s = self._sent.popleft()
        took_s = before.elapsed_time(self._ends[0]) / 1e3
        self.landed.append(Chunk(steps=steps, took_s=took_s, fed=fed, exposed_s=exposed_s))
        self.steps -= steps
        return self.landed[-1]


def _mark(cuda: Any) -> Any:
    event = cuda.Event(enable_timing=True)
    event.record()
    return event
