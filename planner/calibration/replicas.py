"""Which ranks make one pipeline: G replicas, which train side by side and meet at the end of an iteration.

The GPUs that share a stage by tensor or context parallelism work on the same operations, so the slowest of them
speaks for it. Replicas wait for one another only once an iteration: each has a longest path of its own, and the
iteration takes as long as the longest of these, which is shorter than a path over every stage's slowest replica.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.graph import build_graph
from energyopt.planner.paths import Paths
from energyopt.schemas.ops import Schedule
from energyopt.schemas.telemetry import Mode, Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The replica of each rank. left_out: ranks that only observed while peers on their operations set clocks."""

    of_rank: Mapping[int, int]
    left_out: frozenset[int]

    @property
    def count(self) -> int:
        """How many there are."""
        return max(self.of_rank.values(), default=0) + 1


def read_replicas(telemetry: Telemetry) -> Replicas:
    """By rising rank within each stage, tensor and context ranks next to each other, as launchers number them.

    Where the ranks are not as many as the degrees make, all count as one replica.
    """
    pairs = telemetry.iterations.group_by(["rank", "stage"], use_threads=False).aggregate([])
    stages: dict[int, list[int]] = {}
    for row in sorted(pairs.to_pylist(), key=lambda row: row["rank"]):
        stages.setdefault(row["stage"], []).append(row["rank"])
    pipeline = telemetry.metadata.pipeline
    width = pipeline.tensor_parallel * pipeline.context_parallel
    regular = {len(ranks) for ranks in stages.values()} == {width * pipeline.data_parallel}
    cells: dict[tuple[int, int], list[int]] = {}
    for stage, ranks in stages.items():
        for place, rank in enumerate(ranks):
            cells.setdefault((stage, place // width if regular else 0), []).append(rank)
    return Replicas(
        of_rank={rank: replica for (_, replica), ranks in cells.items() for rank in ranks},
        left_out=_observers_among_others(telemetry, list(cells.values())),
    )


def slowest_replica(schedule: Schedule, op_time_s: Sequence[Floats], weights: Floats) -> int:
    """The replica whose longest path is the longest on average; op_time_s: of each run, [G, n]."""
    paths = Paths(build_graph(schedule, 0.0))
    shares = [(found := paths.makespans_s(one.T)) / found.mean() for one in op_time_s]
    return int(np.argmax(np.average(shares, axis=0, weights=weights)))


def _observers_among_others(telemetry: Telemetry, cells: Sequence[Sequence[int]]) -> frozenset[int]:
    setting = {gpu.rank for gpu in telemetry.metadata.gpus if gpu.mode is Mode.APPLY}
    return frozenset(
        rank for ranks in cells if setting.intersection(ranks) for rank in ranks if rank not in setting
    )
