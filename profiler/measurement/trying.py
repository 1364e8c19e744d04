"""Trying each kernel once, and what all ranks then plan to measure."""

import math
from collections.abc import Iterable
from dataclasses import replace

from energyopt.profiler.measurement.agreement import Trial, agree_on_plan
from energyopt.profiler.measurement.budget import SweepPlan
from energyopt.profiler.measurement.calibration import Calibration
from energyopt.profiler.measurement.job import Job
from energyopt.profiler.measurement.latency import LOAD_S, SWITCHES
from energyopt.profiler.measurement.settings import Timing
from energyopt.profiler.search.budgeting import planned_points
from energyopt.profiler.search.spaces_of import searched_partitions
from energyopt.profiler.workloads.interface import Kernel, Workload


def plan_for(job: Job, calibration: Calibration, timing: Timing, began_s: float) -> SweepPlan:
    """What all ranks will measure: fitted to the slowest board and the coarsest tick among them."""
    job.progress("trying each kernel once", 0.0)
    run_s = _try_kernels(job)
    beside_s = job.bench.now_s() - began_s + SWITCHES * LOAD_S
    trial = Trial(calibration=calibration, timing=timing, run_s=run_s, beside_s=beside_s)
    return agree_on_plan(job.team, job.settings, trial)


def plan_of_others(job: Job) -> SweepPlan:
    """Take part in trying the collectives, and take over the plan that the others make."""
    _try_kernels(job)
    return agree_on_plan(job.team, job.settings, None)


def _try_kernels(job: Job) -> dict[str, float]:
    """Time of one run of each kernel at the highest clock, s; the first run of each is a warm-up.

    With a search, one configuration of each partition is tried, and its points count as what they come to at a
    clock: so many kernels more, each as long as those.
    """
    found = _tried(job, swept(job).kernels())
    return found | _search_as_kernels(job) if job.settings.search else found


def _search_as_kernels(job: Job) -> dict[str, float]:
    clocks = job.settings.clocks_mhz or (1,)
    found = searched_partitions(job.workload, clocks, lambda _name, _clock: None)
    firsts = (next(kernel for kernel in one.kernels if kernel is not None) for one in found)
    tried = _tried(job, firsts)
    points = planned_points(job.workload, job.settings)
    if not tried:
        return {}
    mean_s = math.fsum(tried.values()) / len(tried)
    return {f"search {number}": mean_s for number in range(math.ceil(points / len(clocks)))}


def swept(job: Job) -> Workload:
    """What is measured at every clock: all of the workload, but for partitions that are searched."""
    return replace(job.workload, composites=()) if job.settings.search else job.workload


def _tried(job: Job, kernels: Iterable[Kernel]) -> dict[str, float]:
    found = {}
    for kernel in kernels:
        if not job.able and kernel.communication is None:
            continue
        job.bench.prepare(kernel)
        job.bench.run(kernel, 1)
        found[kernel.name] = job.bench.run(kernel, 3) / 3
    return found
