"""1F1B: after a warm-up every stage alternates between a forward and a backward."""

from energyopt.planner.schedules.parts import alternate, run, single_chunks
from energyopt.schemas.ops import Op, OpKind, Schedule

NAME = "1f1b"


def build_1f1b(stages: int, microbatches: int, chunks_per_stage: int) -> Schedule:
    """Build the schedule of Narayanan et al., "PipeDream", SOSP 2019, with a flush (Megatron-LM's default).

    Stage s of S warms up with S - s - 1 forwards, or with all of them where there are fewer microbatches. It
    takes as long as GPipe, but stage s keeps the activations of at most S - s microbatches.

    Raises:
        ScheduleError: more than one chunk per stage.
    """
    return Schedule(
        name=NAME,
        microbatches=microbatches,
        virtual_stages=single_chunks(NAME, stages, chunks_per_stage),
        orders=tuple(order_1f1b(stage, stages, microbatches) for stage in range(stages)),
    )


def order_1f1b(stage: int, stages: int, microbatches: int) -> tuple[Op, ...]:
    """List the operations of one stage."""
    forwards = run(OpKind.FORWARD, stage, range(microbatches))
    backwards = run(OpKind.BACKWARD, stage, range(microbatches))
    return alternate(stages - stage - 1, forwards, ([backward] for backward in backwards))
