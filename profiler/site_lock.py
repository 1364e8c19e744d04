"""Finding out, before a sweep sets its first clock, whether the site may have locked the board."""

import math

from energyopt.applier.devices.interface import Throttle
from energyopt.applier.devices.site_lock import lock_cannot_be_known, refuse_if_locked
from energyopt.profiler.benches.interface import Bench
from energyopt.profiler.measurement.samples import Recorder
from energyopt.profiler.measurement.warming import run_time_s
from energyopt.profiler.workloads.interface import Kernel

LOOK_S = 0.3


def refuse_unknown_lock(bench: Bench, kernel: Kernel) -> None:
    """Run a prepared kernel, one that no power cap slows, on the board as it is; nothing is set.

    A board that idles, since the kernels run elsewhere, cannot be judged.

    Raises:
        ClockControlError: it runs below its highest clock, and nothing explains that but a lock.
    """
    if not lock_cannot_be_known(bench.device):
        return
    recorder = Recorder(
        bench.device, fine_s=0.02, coarse_s=0.02, fine_from_s=math.inf, counter=False, always_fine=True
    )
    repeats = max(1, math.ceil(LOOK_S / run_time_s(bench, kernel)))
    bench.run(kernel, repeats)  # the board comes out of idle unseen
    bench.run(kernel, repeats, recorder)
    refuse_if_locked(bench.device, recorder.samples.sm_clock_mhz, recorder.samples.throttle or Throttle(0))
