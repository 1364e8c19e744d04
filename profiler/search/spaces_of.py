"""The spaces of a workload's partitions, with what is known of their kernels by themselves."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from energyopt.profiler.search.space import Space
from energyopt.profiler.workloads.composites import compute_uses, launch_names, overlappable
from energyopt.profiler.workloads.interface import Composite, Kernel, KernelUse, Partition, Workload
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import PLAIN

TimeOf = Callable[[str, int], float | None]
"""Time of one run of a kernel at a clock, s, by its name; None where it is not known."""

EVEN = 0.5
"""The share of communication where nothing is known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """A partition whose configurations are searched.

    kernels: by configuration; None for sequential execution where that is the sum of `parts`.
    parts: its kernels by themselves, on the whole microbatch.
    """

    space: Space
    kernels: tuple[Kernel | None, ...]
    parts: tuple[KernelUse, ...]


def searched_partitions(
    workload: Workload, clocks_mhz: tuple[int, ...], time_of: TimeOf
) -> tuple[Searched, ...]:
    """Every partition that is measured as a whole, once; partitions that are the same work are one.

    Args:
        workload: with its composites.
        clocks_mhz: those of the profile, highest first.
        time_of: for where launch points lie and how much is communication.
    """
    partitions = {
        (op.kind, use.partition.name, parts): use.partition
        for op in workload.ops
        for use, parts in overlappable(op)
    }
    found: dict[tuple[str, ...], Searched] = {}
    for key, composites in _by_partition(workload.composites).items():
        one = _searched(key, partitions[key], composites, clocks_mhz, time_of)
        found.setdefault(tuple(kernel.name for kernel in one.kernels if kernel is not None), one)
    return tuple(found.values())


_Key = tuple[OpKind, str, int | None]


def _by_partition(composites: Iterable[Composite]) -> dict[_Key, list[Composite]]:
    found: dict[_Key, list[Composite]] = {}
    for one in composites:
        found.setdefault((one.kind, one.partition, one.nanobatches), []).append(one)
    return found


def _searched(
    key: _Key,
    partition: Partition,
    composites: list[Composite],
    clocks_mhz: tuple[int, ...],
    time_of: TimeOf,
) -> Searched:
    kind, name, parts = key
    kernels: dict[object, Kernel | None] = {PLAIN: None}
    kernels |= {one.config: one.kernel for one in composites}
    space = Space(
        name=f"{kind} {name}" + ("" if parts in {None, 1} else f"/{parts}"),
        clocks_mhz=clocks_mhz,
        configs=(PLAIN, *(one.config for one in composites if one.config != PLAIN)),
        launch_at=_launch_at(partition, clocks_mhz[0], time_of),
        comm_share=tuple(_comm_share(partition, clock, time_of) for clock in clocks_mhz),
    )
    return Searched(space=space, kernels=tuple(kernels.values()), parts=partition.kernels)


def _launch_at(partition: Partition, clock_mhz: int, time_of: TimeOf) -> dict[str, float]:
    """The share of compute time that has passed at each launch point; evenly spread where times are not known."""
    uses = compute_uses(partition)
    times = [_time_s(use, clock_mhz, time_of) for use in uses]
    known = [one for one in times if one is not None]
    weights = known if len(known) == len(uses) else [1.0] * len(uses)
    return {name: sum(weights[:index]) / sum(weights) for index, name in enumerate(launch_names(partition))}


def _comm_share(partition: Partition, clock_mhz: int, time_of: TimeOf) -> float:
    times = [(use, _time_s(use, clock_mhz, time_of)) for use in partition.kernels]
    if any(time_s is None for _, time_s in times):
        return EVEN
    whole = sum(time_s or 0.0 for _, time_s in times)
    return sum(time_s or 0.0 for use, time_s in times if use.kernel.communication is not None) / whole


def _time_s(use: KernelUse, clock_mhz: int, time_of: TimeOf) -> float | None:
    time_s = time_of(use.kernel.name, clock_mhz)
    return None if time_s is None else use.count * time_s
