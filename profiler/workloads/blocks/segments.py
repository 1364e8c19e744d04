"""Cutting a block into partitions, each with at most one communication kernel."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from energyopt.profiler.workloads.interface import Kernel, KernelUse, Partition


class Part(StrEnum):
    """Which kernels of a backward are meant: all, those for the input's gradient, those for the weights'."""

    WHOLE = "whole"
    INPUT = "input"
    WEIGHT = "weight"


@dataclass(frozen=True, slots=True)
class ForWeight:
    """A kernel that only the weights' gradient needs."""

    kernel: Kernel


@dataclass(frozen=True, slots=True)
class Segment:
    """Kernels that stand together, in order, with at most one communication among them; None is left out."""

    name: str
    kernels: tuple[Kernel | ForWeight | None, ...]

    def chosen(self, part: Part) -> list[Kernel]:
        """The kernels of that part."""
        found = [one for one in self.kernels if one is not None]
        weight = [isinstance(one, ForWeight) for one in found]
        kernels = [one.kernel if isinstance(one, ForWeight) else one for one in found]
        if part is Part.WHOLE:
            return kernels
        return [kernel for kernel, own in zip(kernels, weight, strict=True) if own is (part is Part.WEIGHT)]


def partitions(block: str, segments: Sequence[Segment], part: Part = Part.WHOLE) -> tuple[Partition, ...]:
    """Segments in order, joined as long as at most one of them communicates.

    One partition carries the block's name; of several, each carries the block's and that of its communicating
    segment, such as `attention_out`.
    """
    groups: list[tuple[str | None, list[Kernel]]] = []
    for segment in segments:
        kernels = segment.chosen(part)
        communicates = any(kernel.communication for kernel in kernels)
        if groups and not (communicates and groups[-1][0]):
            name, own = groups[-1]
            groups[-1] = (segment.name if communicates else name, own + kernels)
        else:
            groups.append((segment.name if communicates else None, kernels))
    single = len(groups) == 1
    return tuple(
        Partition(
            name=block if single else f"{block}_{name}",
            kernels=tuple(KernelUse(kernel=one) for one in kernels),
        )
        for name, kernels in groups
        if kernels
    )
