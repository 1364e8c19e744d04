"""The other side of `hook_cost`: a synchronisation and a queue put per instruction.

Zeus 0.16's `PipelineFrequencyOptimizer`, rebuilt here with a driver that only waits: before each operation it
synchronises the device, takes the next entry of the plan, compares its name, and puts its clock in a queue of
`multiprocessing`. A process takes the clocks from there and sets each that differs from the one before.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterable
from itertools import cycle
from multiprocessing.queues import Queue


class ZeusPattern:
    """The pattern at work, with a controller process of its own. `synchronise` gets the device's number.

    On a GPU that is `torch.cuda.synchronize`, whose wait for the work then counts as well. Without it a call that
    does nothing stands in: the figures are a lower limit.
    """

    def __init__(
        self, clocks_mhz: Iterable[int], set_s: float, synchronise: Callable[[int], None] | None = None
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._clocks: Queue[int] = context.Queue()
        self._controller = context.Process(target=_set_clocks, args=(self._clocks, set_s), daemon=True)
        self._controller.start()
        self._plan = (("forward", clock_mhz) for clock_mhz in cycle(clocks_mhz))
        self._synchronise = synchronise or _nothing

    def hook(self) -> None:
        """Before an instruction."""
        self._synchronise(0)
        name, clock_mhz = next(self._plan)
        if name == "forward" and clock_mhz:
            self._clocks.put(clock_mhz, block=False)

    def close(self) -> None:
        """End the controller, with what it has not set yet: it falls behind, and by design drops nothing."""
        self._controller.terminate()
        self._controller.join()
        self._clocks.cancel_join_thread()
        self._clocks.close()


def _set_clocks(clocks: "Queue[int]", set_s: float) -> None:
    current_mhz = 0
    while True:
        target_mhz = clocks.get()
        if target_mhz != current_mhz:
            time.sleep(set_s)
            current_mhz = target_mhz


def _nothing(_device: int) -> None:
    """In the place of `torch.cuda.synchronize`."""
