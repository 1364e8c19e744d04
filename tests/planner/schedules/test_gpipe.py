import pytest

from energyopt.planner.graph import build_graph
from energyopt.planner.schedules import SCHEDULES, read_torch_csv
from energyopt.schemas.errors import ScheduleError


def test_pytorch_runs_the_same_order(orders, data) -> None:
    assert orders(SCHEDULES["gpipe"](4, 8, 1)) == orders(read_torch_csv(data / "gpipe-4x8.csv"))


@pytest.mark.parametrize("stages", range(1, 6))
@pytest.mark.parametrize("microbatches", [1, 2, 4, 9])
def test_time_is_that_of_the_paper(run, stages: int, microbatches: int) -> None:
    schedule = SCHEDULES["gpipe"](stages, microbatches, 1)
    build_graph(schedule)
    expected = (microbatches + stages - 1) * (1.0 + 2.5)
    assert run(schedule, 1.0, 2.5).iteration_time_s == pytest.approx(expected)


def test_first_stage_holds_every_microbatch(held_microbatches) -> None:
    assert held_microbatches(SCHEDULES["gpipe"](4, 9, 1), 3) == 9


def test_chunks_are_refused() -> None:
    with pytest.raises(ScheduleError, match="gpipe has no model chunks, but chunks_per_stage is 2"):
        SCHEDULES["gpipe"](4, 8, 2)
