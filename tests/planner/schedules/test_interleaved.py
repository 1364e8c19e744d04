from dataclasses import replace
from itertools import zip_longest

import pytest

from energyopt.planner.graph import build_graph
from energyopt.planner.schedules import SCHEDULES, read_torch_csv
from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.ops import OpKind, Schedule


def build(stages: int, microbatches: int, chunks: int) -> Schedule:
    return SCHEDULES["interleaved-1f1b"](stages, microbatches, chunks)


def warm_ups(schedule: Schedule) -> list[int]:
    """Count each stage's forwards before its first pair of a forward and a backward."""
    counts = []
    for order in schedule.orders:
        first = next(i for i, op in enumerate(order) if op.kind is OpKind.BACKWARD)
        counts.append(first - any(op.kind is OpKind.FORWARD for op in order[first:]))
    return counts


def with_warm_ups(schedule: Schedule, counts: list[int]) -> Schedule:
    orders = []
    for order, count in zip(schedule.orders, counts, strict=True):
        forwards = [op for op in order if op.kind is OpKind.FORWARD]
        pairs = zip_longest(forwards[count:], (op for op in order if op.kind is OpKind.BACKWARD))
        orders.append((*forwards[:count], *(op for pair in pairs for op in pair if op is not None)))
    return replace(schedule, name="shorter", orders=tuple(orders))


@pytest.mark.parametrize(("stages", "chunks", "microbatches"), [(4, 2, 8), (3, 3, 6)])
def test_pytorch_runs_the_same_order(orders, data, stages: int, chunks: int, microbatches: int) -> None:
    printed = read_torch_csv(data / f"interleaved1f1b-{stages}x{chunks}x{microbatches}.csv")
    schedule = build(stages, microbatches, chunks)
    assert orders(schedule) == orders(printed)
    assert schedule.virtual_stages == printed.virtual_stages


@pytest.mark.parametrize("stages", range(1, 6))
@pytest.mark.parametrize("chunks", range(1, 4))
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_bubble_is_divided_by_the_chunks(run, stages: int, chunks: int, rounds: int) -> None:
    microbatches = rounds * stages
    time_s = run(build(stages, microbatches, chunks), 1.0 / chunks, 2.0 / chunks).iteration_time_s
    assert time_s == pytest.approx(microbatches * 3.0 + (stages - 1) * 3.0 / chunks)


@pytest.mark.parametrize("stages", range(1, 7))
@pytest.mark.parametrize("chunks", range(1, 5))
def test_any_number_of_microbatches_can_run(run, stages: int, chunks: int) -> None:
    for microbatches in range(1, 14):
        schedule = build(stages, microbatches, chunks)
        assert build_graph(schedule).n_ops == 2 * stages * chunks * microbatches
        assert run(schedule).iteration_time_s >= 3.0 * chunks * microbatches


@pytest.mark.parametrize(("stages", "chunks"), [(8, 2), (8, 3), (9, 5)])
def test_many_stages_with_any_remainder_can_run(stages: int, chunks: int) -> None:
    for microbatches in range(2 * stages, 3 * stages):
        build_graph(build(stages, microbatches, chunks))


def test_warm_up_is_megatrons_where_the_groups_are_whole() -> None:
    assert warm_ups(build(4, 8, 2)) == [4 + 6, 4 + 4, 4 + 2, 4 + 0]
    assert warm_ups(build(6, 10, 2)) == [16, 14, 12, 10, 8, 6]  # a last group of 4 = S - 2 needs no more
    assert warm_ups(build(6, 13, 2)) == [16, 14, 12, 10, 8, 6]  # nor does one of 1 with two chunks


def test_a_small_last_group_lengthens_the_warm_up_of_late_stages_alone() -> None:
    assert warm_ups(build(6, 13, 3)) == [22, 20, 18, 16, 14, 13]  # at least 12 + min(6 - 2 - 1, 2 * 1 - 1)
    assert warm_ups(build(8, 18, 4)) == [38, 36, 34, 32, 30, 28, 28, 28]  # 24 + min(8 - 2 - 2, 3 * 2 - 1)


@pytest.mark.parametrize("stages", range(4, 9))
@pytest.mark.parametrize("chunks", [2, 3, 4])
def test_the_longer_warm_up_is_no_longer_than_needed(stages: int, chunks: int) -> None:
    """Found by trying: with one forward less on the stages that were raised, the pipeline stops."""
    for microbatches in range(stages + 1, 2 * stages):
        schedule = build(stages, microbatches, chunks)
        megatron = [(chunks - 1) * stages + 2 * (stages - stage - 1) for stage in range(stages)]
        shorter = [max(pair) for pair in zip(megatron, (n - 1 for n in warm_ups(schedule)), strict=True)]
        if with_warm_ups(schedule, megatron).orders != schedule.orders:
            with pytest.raises(ScheduleError, match="schedule shorter cannot run"):
                build_graph(with_warm_ups(schedule, shorter))


def test_fewer_microbatches_than_stages(orders) -> None:
    assert orders(build(3, 1, 2)) == ["0F0 3F0 3B0 0B0", "1F0 4F0 4B0 1B0", "2F0 5F0 5B0 2B0"]


def test_one_chunk_is_1f1b(orders) -> None:
    assert orders(build(4, 7, 1)) == orders(SCHEDULES["1f1b"](4, 7, 1))
    assert build(4, 7, 1).name == "interleaved-1f1b"
