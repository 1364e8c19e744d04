import pytest

from energyopt.planner.graph import build_graph
from energyopt.planner.schedules import SCHEDULES, read_torch_csv
from energyopt.schemas.errors import ScheduleError


def test_pytorch_runs_the_same_order(orders, data) -> None:
    assert orders(SCHEDULES["1f1b"](4, 8, 1)) == orders(read_torch_csv(data / "1f1b-4x8.csv"))


@pytest.mark.parametrize("stages", range(1, 6))
@pytest.mark.parametrize("microbatches", [1, 2, 4, 9])
def test_time_is_that_of_gpipe(run, stages: int, microbatches: int) -> None:
    schedule = SCHEDULES["1f1b"](stages, microbatches, 1)
    build_graph(schedule)
    expected = (microbatches + stages - 1) * (1.0 + 2.5)
    assert run(schedule, 1.0, 2.5).iteration_time_s == pytest.approx(expected)


@pytest.mark.parametrize("microbatches", [1, 3, 5, 12])
def test_stage_s_holds_at_most_stages_minus_s(held_microbatches, microbatches: int) -> None:
    schedule = SCHEDULES["1f1b"](5, microbatches, 1)
    held = [held_microbatches(schedule, stage) for stage in range(5)]
    assert held == [min(5 - stage, microbatches) for stage in range(5)]


def test_fewer_microbatches_than_stages(orders) -> None:
    assert orders(SCHEDULES["1f1b"](3, 1, 1)) == ["0F0 0B0", "1F0 1B0", "2F0 2B0"]
    assert orders(SCHEDULES["1f1b"](4, 2, 1))[:2] == ["0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"]


def test_chunks_are_refused() -> None:
    with pytest.raises(ScheduleError, match="choose interleaved-1f1b or set it to 1"):
        SCHEDULES["1f1b"](4, 8, 2)
