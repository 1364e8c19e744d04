"""Which GPUs stand in which node, and what each node draws.

GPUs of a pipeline are numbered stage by stage, the tensor and context ranks of a stage beside each other, and each
node has the next N of them. Data-parallel replicas have nodes of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from energyopt.planner.power.over_time import Loads
from energyopt.schemas.errors import RequestError

GPUS_PER_NODE = 8
"""As in the servers that large models are trained on, where nobody says otherwise."""

Share = tuple[tuple[int, int], ...]
"""Of a node: stages and how many GPUs of each it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePower:
    """What each of the nodes `first` to `last` draws, all of which hold as many GPUs of the same stages."""

    first: int
    last: int
    stages: tuple[int, ...]
    gpus: int
    average_w: float
    peak_w: float


def node_powers(
    loads: Loads, gpus_per_stage: int, gpus_per_node: int, lasts_s: float = 0.0
) -> tuple[NodePower, ...]:
    """Average and peak power of every node of one pipeline; equal neighbours share an entry.

    lasts_s: see `PowerOverTime.peak_w`.

    Raises:
        RequestError: fewer than one GPU in a node.
    """
    if gpus_per_node < 1:
        raise RequestError(f"--gpus-per-node needs a number of at least 1, not {gpus_per_node}")
    shares = enumerate(_shares(loads.stages, gpus_per_stage, gpus_per_node))
    found = []
    for share, group in groupby(shares, key=lambda one: one[1]):
        numbers = [number for number, _ in group]
        found.append(_node(loads, share, numbers[0], numbers[-1], lasts_s))
    return tuple(found)


def _node(loads: Loads, share: Share, first: int, last: int, lasts_s: float) -> NodePower:
    gpus_S = np.zeros(loads.stages)
    for stage, gpus in share:
        gpus_S[stage] = gpus
    power = loads.of_gpus(gpus_S)
    return NodePower(
        first=first,
        last=last,
        stages=tuple(stage for stage, _ in share),
        gpus=int(gpus_S.sum()),
        average_w=power.average_w,
        peak_w=power.peak_w(lasts_s),
    )


def _shares(stages: int, gpus_per_stage: int, gpus_per_node: int) -> Iterator[Share]:
    """What each node holds; the last one may have room left."""
    total = stages * gpus_per_stage
    for first in range(0, total, gpus_per_node):
        end = min(first + gpus_per_node, total)
        own = range(first // gpus_per_stage, (end - 1) // gpus_per_stage + 1)
        yield tuple(
            (stage, min(end, (stage + 1) * gpus_per_stage) - max(first, stage * gpus_per_stage))
            for stage in own
        )
