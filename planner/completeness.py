"""Which operation does which piece of work, and the refusal of schedules that leave something out.

V: virtual stages of the pipeline; M: microbatches of the iteration; W: backwards that are split.
"""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.ops import Op, OpKind, Schedule

_Done = dict[OpKind, dict[int, int]]  # kind -> unit (virtual stage * M + microbatch) -> operation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """The operations that do the work of a complete schedule, as indices into `Schedule.ops`.

    `backward` holds the full backward or, where it is split, the `backward_input`. `weight` holds every
    `backward_weight`, beside the `backward_input` that it needs.
    """

    forward: NDArray[np.int32]  # [V, M]
    backward: NDArray[np.int32]  # [V, M]
    weight: NDArray[np.int32]  # [W]
    weight_input: NDArray[np.int32]  # [W]


def locate_work(schedule: Schedule) -> Work:
    """Find the operation behind every forward and backward; linear in the number of operations.

    Raises:
        ScheduleError: work that is missing, done twice, half split, or numbered outside the pipeline.
    """
    shape = _shape(schedule)
    done = _collect(schedule)
    _check_forwards(schedule, done, shape)
    _check_backwards(schedule, done, shape)
    _check_weights(schedule, done)
    inputs, weights = done[OpKind.BACKWARD_INPUT], done[OpKind.BACKWARD_WEIGHT]
    return Work(
        forward=_table(done[OpKind.FORWARD], shape),
        backward=_table(done[OpKind.BACKWARD] | inputs, shape),
        weight=np.fromiter(weights.values(), np.int32, len(weights)),
        weight_input=np.fromiter((inputs[unit] for unit in weights), np.int32, len(weights)),
    )


def _shape(schedule: Schedule) -> tuple[int, int]:
    """(V, M), once the virtual stages are known to be numbered soundly."""
    places = [virtual for chunks in schedule.virtual_stages for virtual in chunks]
    if sorted(places) != list(range(len(places))) or not places:
        raise ScheduleError(
            f"schedule {schedule.name}: its virtual stages are {places}, not 0, 1, ... once each"
        )
    if len(schedule.virtual_stages) != schedule.stages:
        raise ScheduleError(
            f"schedule {schedule.name} places {len(schedule.virtual_stages)} stages but orders "
            f"{schedule.stages}"
        )
    if schedule.microbatches < 1:
        raise ScheduleError(
            f"schedule {schedule.name} has {schedule.microbatches} microbatches, not at least 1"
        )
    return len(places), schedule.microbatches


def _collect(schedule: Schedule) -> _Done:
    done: _Done = {kind: {} for kind in OpKind if kind is not OpKind.FORWARD_BACKWARD}
    index = 0
    for stage, order in enumerate(schedule.orders):
        units = [virtual * schedule.microbatches for virtual in schedule.virtual_stages[stage]]
        for op in order:
            if op.stage != stage:
                raise ScheduleError(f"schedule {schedule.name}: {op} stands in the order of stage {stage}")
            for kind, chunk, microbatch in _halves(schedule, op):
                _check_numbers(schedule, op, chunk, microbatch)
                if done[kind].setdefault(units[chunk] + microbatch, index) != index:
                    raise ScheduleError(
                        f"schedule {schedule.name}: {op} repeats a {kind} that is already done"
                    )
            index += 1
    return done


def _halves(schedule: Schedule, op: Op) -> tuple[tuple[OpKind, int, int], ...]:
    if op.kind is not OpKind.FORWARD_BACKWARD:
        return ((op.kind, op.chunk, op.microbatch),)
    if op.backward_chunk is None or op.backward_microbatch is None:
        raise ScheduleError(f"schedule {schedule.name}: {op} does not say which backward it runs")
    return (
        (OpKind.FORWARD, op.chunk, op.microbatch),
        (OpKind.BACKWARD, op.backward_chunk, op.backward_microbatch),
    )


def _check_numbers(schedule: Schedule, op: Op, chunk: int, microbatch: int) -> None:
    if not 0 <= microbatch < schedule.microbatches:
        last = schedule.microbatches - 1
        raise ScheduleError(f"schedule {schedule.name}: {op} is outside its microbatches 0 to {last}")
    if not 0 <= chunk < len(schedule.virtual_stages[op.stage]):
        count = len(schedule.virtual_stages[op.stage])
        raise ScheduleError(f"schedule {schedule.name}: {op} names chunk {chunk}, its stage has {count}")


def _check_forwards(schedule: Schedule, done: _Done, shape: tuple[int, int]) -> None:
    forwards = done[OpKind.FORWARD]
    if len(forwards) == shape[0] * shape[1]:
        return
    next_stage = {unit - shape[1]: op for unit, op in forwards.items() if unit >= shape[1]}
    needed = next_stage | done[OpKind.BACKWARD_INPUT] | done[OpKind.BACKWARD]
    if missing := needed.keys() - forwards.keys():
        _refuse_missing(schedule, "forward", min(missing), needed[min(missing)])
    unit = next(unit for unit in range(len(forwards) + 1) if unit not in forwards)
    _refuse_missing(schedule, "forward", unit, None)


def _check_backwards(schedule: Schedule, done: _Done, shape: tuple[int, int]) -> None:
    full, split = done[OpKind.BACKWARD], done[OpKind.BACKWARD_INPUT]
    if both := full.keys() & split.keys():
        op = schedule.ops[split[min(both)]]
        raise ScheduleError(f"schedule {schedule.name}: {op} repeats part of the full backward there")
    if len(full) + len(split) < shape[0] * shape[1]:
        found = full.keys() | split.keys()
        unit = next(unit for unit in range(shape[0] * shape[1]) if unit not in found)
        _refuse_missing(schedule, "backward", unit, done[OpKind.FORWARD][unit])


def _check_weights(schedule: Schedule, done: _Done) -> None:
    inputs, weights = done[OpKind.BACKWARD_INPUT], done[OpKind.BACKWARD_WEIGHT]
    if alone := inputs.keys() - weights.keys():
        _refuse_missing(schedule, "backward_weight", min(alone), inputs[min(alone)])
    if alone := weights.keys() - inputs.keys():
        _refuse_missing(schedule, "backward_input", min(alone), weights[min(alone)])


def _refuse_missing(schedule: Schedule, what: str, unit: int, needing: int | None) -> NoReturn:
    virtual, microbatch = divmod(unit, schedule.microbatches)
    missing = f"the {what} of microbatch {microbatch} on virtual stage {virtual}"
    reason = "every microbatch needs" if needing is None else f"{schedule.ops[needing]} calls for"
    raise ScheduleError(f"schedule {schedule.name} lacks {missing}, which {reason}")


def _table(found: dict[int, int], shape: tuple[int, int]) -> NDArray[np.int32]:
    table = np.empty(len(found), dtype=np.int32)
    table[np.fromiter(found.keys(), np.int64, len(found))] = np.fromiter(found.values(), np.int32, len(found))
    return table.reshape(shape)
