"""Steps in a thread of their own, so that the calling thread can poll however long one step takes."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait

from energyopt.profiler.benches.interface import Poll
from energyopt.profiler.benches.polling import Poller, now
from energyopt.profiler.benches.runners import Step

_SPIN_S = 1e-3


class ThreadRunner:
    """The runner of a CPU. Torch releases the interpreter inside its operations, so polls come on time."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="energyopt-kernels")

    @property
    def idle_share(self) -> float:
        """Nothing is queued: a step's work is done when it returns."""
        return 0.0

    def forget(self) -> None:
        """Nothing is learnt."""

    def release(self) -> None:
        """Torch keeps no cache of a CPU's memory."""

    def settle(self) -> None:
        """Steps are done when they return."""

    def run(self, step: Step, repeats: int, poll: Poll | None) -> float:
        """Run the steps in the thread and poll in this one; what either raises ends both and is raised here."""
        stop = threading.Event()
        poller = Poller(poll)
        future = self._pool.submit(_repeat, step, repeats, stop)
        try:
            while not future.done():
                poller.visit()
                wait([future], timeout=poller.pause_s())
        finally:
            stop.set()
            wait([future])
        return future.result()

    def spin(self) -> Step:
        """A busy loop."""
        return _spin

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown()


def _repeat(step: Step, repeats: int, stop: threading.Event) -> float:
    start_s = now()
    for _ in range(repeats):
        if stop.is_set():
            break
        step()
    return now() - start_s


def _spin() -> None:
    end_s = now() + _SPIN_S
    while now() < end_s:
        pass
