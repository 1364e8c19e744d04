"""Megatron-Core's own schedules, run with and without hooks."""

from typing import Any

import pytest

from energyopt.planner.schedules.interleaved import build_interleaved_1f1b
from energyopt.planner.schedules.one_f_one_b import build_1f1b
from energyopt.schemas.ops import Schedule

Op = list[Any]  # kind, microbatch, chunk and, for both at once, the backward's chunk and microbatch

JOBS = {  # stages, chunks, microbatches, and those of the first iterations
    "one stage": (1, 1, 3, 2),
    "1F1B, 2 stages": (2, 1, 5, 4),
    "1F1B, 4 stages, then as many microbatches as need no steady state": (4, 1, 6, 3),
    "interleaved, 2 stages": (2, 2, 6, 2),
    "interleaved, 4 stages": (4, 2, 8, 4),
}


def planned(schedule: Schedule, stage: int) -> list[Op]:
    return [[str(op.kind), op.microbatch, op.chunk] for op in schedule.orders[stage]]


def build(stages: int, microbatches: int, chunks: int) -> Schedule:
    if chunks > 1:
        return build_interleaved_1f1b(stages, microbatches, chunks)
    return build_1f1b(stages, microbatches, 1)


@pytest.mark.parametrize(("stages", "chunks", "microbatches", "at_first"), JOBS.values(), ids=JOBS.keys())
def test_hooks_see_the_planners_order_and_change_no_bit(
    jobs: Any, stages: int, chunks: int, microbatches: int, at_first: int
) -> None:
    arguments = ("--chunks", str(chunks), "--microbatches", str(microbatches), "--ramp-up", str(at_first))
    arguments += ("--iterations", "4", "--evaluate-every", "2")
    hooked, plain = jobs.run(stages, *arguments), jobs.run(stages, *arguments, hooked=False)
    assert [rank.result for rank in hooked] == [rank.result for rank in plain]
    assert len(set(hooked[-1].result["losses"])) == 4  # it does train
    for stage, rank in enumerate(hooked):
        sizes = [at_first, at_first, microbatches, microbatches]
        assert [iteration["microbatches"] for iteration in rank.training] == sizes
        assert [iteration["ops"] for iteration in rank.training] == [
            planned(build(stages, size, chunks), stage) for size in sizes
        ]
        assert [iteration["microbatches"] for iteration in rank.evaluations] == [microbatches] * 2
        assert not any(iteration["ops"] for iteration in rank.evaluations)
        assert rank.seen["open"] == rank.seen["left"]["places"] == 0
        assert rank.seen["error"] is None


def test_a_rank_is_described(jobs: Any) -> None:
    ranks = jobs.run(2, "--chunks", "2", "--iterations", "1")
    assert [rank.training[0]["facts"] for rank in ranks] == [
        {
            "framework": "megatron-core 0.16.1",
            "rank": stage,
            "world_size": 2,
            "stage": stage,
            "stages": 2,
            "chunks": 2,
            "microbatches": 4,
            "schedule": "interleaved-1f1b",
            "tensor_parallel": 1,
            "context_parallel": 1,
            "data_parallel": 1,
            "device_ordinal": None,
            "order": None,
        }
        for stage in range(2)
    ]


@pytest.mark.parametrize("microbatches", [1, 3])
def test_what_megatron_refuses_is_refused_in_the_same_words(jobs: Any, microbatches: int) -> None:
    arguments = ("--chunks", "2", "--microbatches", str(microbatches))
    hooked, plain = jobs.run(2, *arguments), jobs.run(2, *arguments, hooked=False)
    assert hooked[0].seen["error"] is not None
    assert [rank.seen["error"] for rank in hooked] == [rank.seen["error"] for rank in plain]


def test_larger_groups_are_no_schedule_of_ours(jobs: Any) -> None:
    """Megatron then takes 5 microbatches on 2 stages, in another order than the planner knows."""
    ranks = jobs.run(2, "--chunks", "2", "--microbatches", "5", "--group-size", "3", "--iterations", "1")
    for stage, rank in enumerate(ranks):
        (iteration,) = rank.training
        known = planned(build(2, 5, 2), stage)
        assert iteration["facts"]["schedule"] is None
        assert iteration["ops"] != known
        assert sorted(iteration["ops"]) == sorted(known)


def combined_order(stage: int, stages: int, microbatches: int, chunks: int) -> list[Op]:
    """Megatron's rule: as many forwards as in interleaved 1F1B and one more, pairs, then the backwards left."""
    groups = range(0, microbatches, stages)
    forwards = [(m, c) for g in groups for c in range(chunks) for m in range(g, g + stages)]
    backwards = [(m, c) for g in groups for c in reversed(range(chunks)) for m in range(g, g + stages)]
    ahead = (chunks - 1) * stages + 2 * (stages - stage - 1) + 1
    pairs = zip(forwards[ahead:], backwards, strict=False)
    together = [["forward_backward", *f, b[1], b[0]] for f, b in pairs]
    before = [["forward", *f] for f in forwards[:ahead]]
    return before + together + [["backward", *b] for b in backwards[len(together) :]]


@pytest.mark.parametrize(("stages", "chunks", "microbatches"), [(1, 1, 3), (2, 2, 4)])
def test_combined_forward_and_backward(jobs: Any, stages: int, chunks: int, microbatches: int) -> None:
    arguments = ("--chunks", str(chunks), "--microbatches", str(microbatches), "--iterations", "2")
    hooked = jobs.run(stages, *arguments, combined=True)
    plain = jobs.run(stages, *arguments, combined=True, hooked=False)
    assert [rank.result for rank in hooked] == [rank.result for rank in plain]
    for stage, rank in enumerate(hooked):
        expected = combined_order(stage, stages, microbatches, chunks)
        assert [iteration["ops"] for iteration in rank.training] == [expected] * 2
        assert rank.training[0]["facts"]["schedule"] is None
        assert rank.seen["left"]["places"] == 0


def test_hundreds_of_iterations_leave_nothing_behind(jobs: Any) -> None:
    arguments = ("--microbatches", "1", "--evaluate-every", "10")
    few, many = (jobs.run(1, *arguments, "--iterations", str(n))[0] for n in (3, 300))
    assert len(many.training) == 300
    assert many.seen["left"] == few.seen["left"] | {"places": 0}
