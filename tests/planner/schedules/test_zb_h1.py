import pytest

from energyopt.planner.graph import build_graph
from energyopt.planner.schedules import SCHEDULES, read_torch_csv
from energyopt.schemas.errors import ScheduleError


def test_pytorch_runs_the_same_order(orders, data) -> None:
    """PyTorch's interleaved zero-bubble schedule with one chunk per stage is ZB-H1."""
    assert orders(SCHEDULES["zb-h1"](4, 8, 1)) == orders(read_torch_csv(data / "interleavedzb-4x1x8.csv"))


@pytest.mark.parametrize("stages", range(1, 7))
@pytest.mark.parametrize(("forward", "backward", "weight"), [(1.0, 1.0, 1.0), (1.0, 1.25, 0.75)])
def test_bubble_is_that_of_the_paper(
    run, stages: int, forward: float, backward: float, weight: float
) -> None:
    for microbatches in (stages, 2 * stages, 3 * stages + 1):
        schedule = SCHEDULES["zb-h1"](stages, microbatches, 1)
        build_graph(schedule)
        busy = microbatches * (forward + backward + weight)
        bubble = (stages - 1) * (forward + backward - weight)
        time_s = run(schedule, forward, backward, weight).iteration_time_s
        assert time_s == pytest.approx(busy + bubble)


@pytest.mark.parametrize("microbatches", [1, 3, 5, 12])
def test_no_stage_holds_more_than_the_first_of_1f1b(held_microbatches, microbatches: int) -> None:
    schedule = SCHEDULES["zb-h1"](5, microbatches, 1)
    assert {held_microbatches(schedule, stage) for stage in range(5)} == {min(5, microbatches)}


@pytest.mark.parametrize("stages", range(1, 7))
def test_fewer_microbatches_than_stages(run, stages: int) -> None:
    for microbatches in range(1, stages):
        schedule = SCHEDULES["zb-h1"](stages, microbatches, 1)
        build_graph(schedule)
        split = run(schedule, 1.0, 1.0, 1.0).iteration_time_s
        whole = run(SCHEDULES["1f1b"](stages, microbatches, 1), 1.0, 2.0).iteration_time_s
        assert split < whole if stages > 1 else split == whole


def test_chunks_are_refused() -> None:
    with pytest.raises(ScheduleError, match="zb-h1 has no model chunks"):
        SCHEDULES["zb-h1"](4, 8, 2)
