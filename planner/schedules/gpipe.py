"""GPipe: every forward, then every backward."""

from energyopt.planner.schedules.parts import run, single_chunks
from energyopt.schemas.ops import Op, OpKind, Schedule

NAME = "gpipe"


def build_gpipe(stages: int, microbatches: int, chunks_per_stage: int) -> Schedule:
    """Build the schedule of Huang et al., "GPipe", NeurIPS 2019.

    The backwards run in the order of the microbatches, first to last, as in PyTorch's ScheduleGPipe and in
    the profiles that Perseus published. The paper draws them last to first; with equal times both take
    (M + S - 1)(tf + tb).

    Raises:
        ScheduleError: more than one chunk per stage.
    """
    return Schedule(
        name=NAME,
        microbatches=microbatches,
        virtual_stages=single_chunks(NAME, stages, chunks_per_stage),
        orders=tuple(_order(stage, microbatches) for stage in range(stages)),
    )


def _order(stage: int, microbatches: int) -> tuple[Op, ...]:
    forwards = run(OpKind.FORWARD, stage, range(microbatches))
    return (*forwards, *run(OpKind.BACKWARD, stage, range(microbatches)))
