"""ZB-H1: the backward is split, and its weight half fills the time in which 1F1B's cool-down waits."""

from energyopt.planner.schedules.parts import alternate, run, single_chunks
from energyopt.schemas.ops import Op, OpKind, Schedule

NAME = "zb-h1"


def build_zb_h1(stages: int, microbatches: int, chunks_per_stage: int) -> Schedule:
    """Build the schedule ZB-H1 of Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024.

    Warm-up and alternation are those of 1F1B. Stage s runs each weight pass s microbatches after the input
    pass, and what is left at the end. It so keeps the activations of at most S microbatches, as many as the
    first stage of 1F1B, and idles for (S - 1)(T_F + T_B - T_W) in place of (S - 1)(T_F + T_B + T_W).

    Raises:
        ScheduleError: more than one chunk per stage.
    """
    return Schedule(
        name=NAME,
        microbatches=microbatches,
        virtual_stages=single_chunks(NAME, stages, chunks_per_stage),
        orders=tuple(_order(stage, stages, microbatches) for stage in range(stages)),
    )


def _order(stage: int, stages: int, microbatches: int) -> tuple[Op, ...]:
    forwards = run(OpKind.FORWARD, stage, range(microbatches))
    inputs = run(OpKind.BACKWARD_INPUT, stage, range(microbatches))
    weights = run(OpKind.BACKWARD_WEIGHT, stage, range(microbatches))
    behind = min(stage, microbatches)
    delayed: list[list[Op]] = [[] for _ in range(behind)] + [[weight] for weight in weights]
    steps = [[first, *second] for first, second in zip(inputs, delayed, strict=False)]
    steps.append(weights[microbatches - behind :])
    return alternate(stages - stage - 1, forwards, steps)
