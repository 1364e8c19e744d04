"""What repeats: classes of one front, prices that are conserved at every operation, and few of them."""

from typing import Any

import numpy as np
import pytest

from energyopt.planner.graph import build_graph
from energyopt.planner.repeats import find_repeats
from energyopt.planner.schedules.registry import build_schedule
from energyopt.schemas.ops import Schedule
from energyopt.schemas.pipeline import Pipeline

SCHEDULES = [
    ("1f1b", 4, 24, 1),
    ("gpipe", 3, 20, 1),
    ("zb-h1", 4, 24, 1),
    ("interleaved-1f1b", 3, 24, 2),
    ("interleaved-1f1b", 4, 26, 2),  # the last group is smaller, so that orders are irregular near the end
]


def _schedule(name: str, stages: int, microbatches: int, chunks: int) -> Schedule:
    return build_schedule(
        Pipeline(stages=stages, microbatches=microbatches, schedule=name, chunks_per_stage=chunks)
    )


@pytest.mark.parametrize(("name", "stages", "microbatches", "chunks"), SCHEDULES)
@pytest.mark.parametrize("ends", [0, 1, 4, 8])
def test_a_class_has_one_key_and_its_members_the_same_dependencies(
    name: str, stages: int, microbatches: int, chunks: int, ends: int
) -> None:
    """So that prices that are equal within classes are conserved at all operations if they are at one of each."""
    schedule = _schedule(name, stages, microbatches, chunks)
    graph = build_graph(schedule)
    found = find_repeats(schedule, graph, ends)
    seen: dict[int, Any] = {}
    for index, op in enumerate(schedule.ops):
        into = sorted(found.edge_class[graph.head == index].tolist())
        out = sorted(found.edge_class[graph.tail == index].tolist())
        assert seen.setdefault(int(found.op_class[index]), (op.key, into, out)) == (op.key, into, out)
    assert np.bincount(found.op_class).tolist() == found.ops.tolist()
    assert np.bincount(found.edge_class).tolist() == found.edges.tolist()


@pytest.mark.parametrize(
    ("name", "stages", "microbatches", "chunks"), [one for one in SCHEDULES if one[0] != "gpipe"]
)
def test_the_number_of_classes_does_not_grow_with_the_microbatches(
    name: str, stages: int, microbatches: int, chunks: int
) -> None:
    """GPipe is no such schedule: its forwards all come before its backwards."""
    counts = set()
    for times in (2, 4):
        schedule = _schedule(name, stages, microbatches + times * 4 * stages, chunks)
        found = find_repeats(schedule, build_graph(schedule), (chunks + 1) * stages)
        counts.add(len(found.ops))
    assert len(counts) == 1


def test_1f1b_has_one_class_for_each_stage_and_kind_in_the_middle() -> None:
    """Of 2 S M operations, 2 S classes in the middle and 2 x ends x 2 S at the ends, as the series stand."""
    stages, microbatches, ends = 3, 30, 5
    schedule = _schedule("1f1b", stages, microbatches, 1)
    found = find_repeats(schedule, build_graph(schedule), ends)
    assert len(found.ops) == 2 * stages + 2 * ends * 2 * stages


def test_a_short_pipeline_repeats_nothing() -> None:
    schedule = _schedule("1f1b", 4, 6, 1)
    found = find_repeats(schedule, build_graph(schedule), 4)
    assert found.ops.tolist() == [1] * len(schedule.ops)
