import pytest

from energyopt.planner import schedules
from energyopt.planner.schedules import SCHEDULES, build_schedule
from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.pipeline import Pipeline


def test_the_package_offers_these_names() -> None:
    assert schedules.__all__ == ["SCHEDULES", "build_schedule", "read_torch_csv"]
    assert list(SCHEDULES) == ["gpipe", "1f1b", "interleaved-1f1b", "zb-h1"]


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_pipeline_gets_the_schedule_it_names(name: str) -> None:
    schedule = build_schedule(Pipeline(stages=3, microbatches=5, schedule=name))
    assert (schedule.name, schedule.stages, schedule.microbatches) == (name, 3, 5)


def test_chunks_reach_the_builder() -> None:
    pipeline = Pipeline(stages=2, microbatches=4, schedule="interleaved-1f1b", chunks_per_stage=3)
    assert build_schedule(pipeline).virtual_stages == ((0, 2, 4), (1, 3, 5))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ScheduleError) as refusal:
        build_schedule(Pipeline(stages=2, microbatches=4, schedule="1F1B"))
    assert str(refusal.value) == (
        "unknown schedule '1F1B': known are gpipe, 1f1b, interleaved-1f1b, zb-h1; "
        "any other can be read from a PyTorch schedule CSV"
    )
