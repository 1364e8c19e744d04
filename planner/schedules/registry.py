"""The schedules by name."""

from energyopt.planner.schedules import gpipe, interleaved, one_f_one_b, zb_h1
from energyopt.planner.schedules.interface import ScheduleBuilder
from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.ops import Schedule
from energyopt.schemas.pipeline import Pipeline

SCHEDULES: dict[str, ScheduleBuilder] = {
    gpipe.NAME: gpipe.build_gpipe,
    one_f_one_b.NAME: one_f_one_b.build_1f1b,
    interleaved.NAME: interleaved.build_interleaved_1f1b,
    zb_h1.NAME: zb_h1.build_zb_h1,
}


def build_schedule(pipeline: Pipeline) -> Schedule:
    """Build the schedule that a pipeline names.

    Raises:
        ScheduleError: no schedule of that name, or it is not defined for the pipeline's sizes.
    """
    if pipeline.schedule not in SCHEDULES:
        raise ScheduleError(
            f"unknown schedule {pipeline.schedule!r}: known are {', '.join(SCHEDULES)}; "
            "any other can be read from a PyTorch schedule CSV"
        )
    builder = SCHEDULES[pipeline.schedule]
    return builder(pipeline.stages, pipeline.microbatches, pipeline.chunks_per_stage)
