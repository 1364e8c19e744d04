"""What the schedules have in common: runs of operations, their alternation, and where chunks are placed."""

from collections.abc import Iterable, Sequence

from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.ops import Op, OpKind

Placement = tuple[tuple[int, ...], ...]


def run(kind: OpKind, stage: int, microbatches: Iterable[int], chunk: int = 0) -> list[Op]:
    """List one kind of work for one microbatch after the other."""
    return [Op(stage=stage, chunk=chunk, microbatch=microbatch, kind=kind) for microbatch in microbatches]


def alternate(warm_up: int, forwards: Sequence[Op], backwards: Iterable[Sequence[Op]]) -> tuple[Op, ...]:
    """Run `warm_up` forwards, then a forward and a backward in turn, then the backwards that remain.

    Each element of `backwards` is run as a whole: a backward, or its parts and what goes with them.
    """
    order = list(forwards[:warm_up])
    for step, backward in enumerate(backwards, start=warm_up):
        order += forwards[step : step + 1]
        order += backward
    return tuple(order)


def single_chunks(name: str, stages: int, chunks_per_stage: int) -> Placement:
    """Place one model chunk on each stage, for a schedule that knows no more.

    Raises:
        ScheduleError: more than one chunk.
    """
    if chunks_per_stage > 1:
        raise ScheduleError(
            f"schedule {name} has no model chunks, but chunks_per_stage is {chunks_per_stage}; "
            "choose interleaved-1f1b or set it to 1"
        )
    return tuple((stage,) for stage in range(stages))


def looped_chunks(stages: int, chunks_per_stage: int) -> Placement:
    """Chunk c of stage s is virtual stage c * stages + s: the model goes round the stages again and again."""
    return tuple(
        tuple(chunk * stages + stage for chunk in range(chunks_per_stage)) for stage in range(stages)
    )
