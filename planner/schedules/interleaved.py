"""Interleaved 1F1B: every stage holds several chunks of the model, which shortens the warm-up's idle time."""

from collections.abc import Iterable

from energyopt.planner.schedules.one_f_one_b import order_1f1b
from energyopt.planner.schedules.parts import alternate, looped_chunks, run
from energyopt.schemas.ops import Op, OpKind, Schedule

NAME = "interleaved-1f1b"


def build_interleaved_1f1b(stages: int, microbatches: int, chunks_per_stage: int) -> Schedule:
    """Build the schedule of Narayanan et al., SC 2021 (Megatron-LM), for any number of microbatches.

    Microbatches go in groups of as many as there are stages; a stage runs a group through its first chunk,
    then through its second, and so on, then takes the next group. The last group may be smaller. With one
    chunk per stage this is 1F1B, whose warm-up is shorter.
    """
    return Schedule(
        name=NAME,
        microbatches=microbatches,
        virtual_stages=looped_chunks(stages, chunks_per_stage),
        orders=tuple(_order(stage, stages, microbatches, chunks_per_stage) for stage in range(stages)),
    )


def _order(stage: int, stages: int, microbatches: int, chunks: int) -> tuple[Op, ...]:
    if chunks == 1:
        return order_1f1b(stage, stages, microbatches)
    forwards = _grouped(OpKind.FORWARD, stage, stages, microbatches, range(chunks))
    backwards = _grouped(OpKind.BACKWARD, stage, stages, microbatches, range(chunks - 1, -1, -1))
    warm_up = _warm_up(stage, stages, microbatches, chunks)
    return alternate(warm_up, forwards, ([backward] for backward in backwards))


def _grouped(kind: OpKind, stage: int, stages: int, microbatches: int, chunks: Iterable[int]) -> list[Op]:
    order: list[Op] = []
    for first in range(0, microbatches, stages):
        group = range(first, min(first + stages, microbatches))
        for chunk in chunks:
            order += run(kind, stage, group, chunk)
    return order


def _warm_up(stage: int, stages: int, microbatches: int, chunks: int) -> int:
    """Count the forwards that run before forwards and backwards alternate.

    Megatron's count is (C - 1) S + 2 (S - s - 1). Where the last group has only r of S microbatches it can
    stop the pipeline: stage 0 runs that group's next chunk r forwards later and not S, so it waits for a
    forward of the last stage, which stands there behind a backward that needs a backward of stage 0 behind
    that wait. A stage that is min(S - 2 - r, (C - 1) r - 1) forwards beyond (C - 1) S runs the forward before
    any such backward. The late stages are raised to that where they have less; one less would be too few.
    """
    last_group = microbatches % stages or stages
    beyond = 2 * (stages - stage - 1)
    if microbatches > stages:
        beyond = max(beyond, min(stages - 2 - last_group, (chunks - 1) * last_group - 1))
    return (chunks - 1) * stages + beyond
