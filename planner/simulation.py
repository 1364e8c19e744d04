"""Running a plan on paper: stages execute their lists, wait for each other's messages, and draw power.

This is the check on everything the solver says. It shares no code with it: no dependency graph is built, no
longest path is computed and no option is pruned; each stage is a process that runs until a message is missing.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.ops import Op, OpKind, Schedule


class Event(NamedTuple):
    """Something that has happened to a microbatch at a place of the model."""

    name: str  # "forward", "backward" (its gradient for the input exists)
    virtual_stage: int
    microbatch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """When every operation ran; both tuples follow `Schedule.ops`, in seconds from the iteration's start."""

    start_s: tuple[float, ...]
    finish_s: tuple[float, ...]
    iteration_time_s: float


def simulate(
    schedule: Schedule, time_s: Sequence[float], p2p_time_s: float = 0.0, fixed_time_s: float = 0.0
) -> Timeline:
    """Execute a schedule with the given duration for each operation of `Schedule.ops`.

    Raises:
        ScheduleError: stages wait for each other for ever, or for something that never happens.
    """
    return _Simulation(schedule, time_s, p2p_time_s).run(fixed_time_s)


def iteration_energy_j(
    timeline: Timeline, time_s: Sequence[float], energy_j: Sequence[float], wait_power_w: float, stages: int
) -> float:
    """Energy of one iteration with one GPU per stage: what operations draw, and wait power in between."""
    busy_s, drawn_j = sum(time_s), sum(energy_j)
    return drawn_j + wait_power_w * (stages * timeline.iteration_time_s - busy_s)


class _Simulation:
    def __init__(self, schedule: Schedule, time_s: Sequence[float], p2p_time_s: float) -> None:
        self.schedule = schedule
        self.time_s = time_s
        self.p2p_time_s = p2p_time_s
        self.last = max(virtual for chunks in schedule.virtual_stages for virtual in chunks)
        self.happened: dict[Event, tuple[float, int]] = {}
        self.waiting: defaultdict[Event, list[int]] = defaultdict(list)
        self.position = [0] * schedule.stages
        self.free_s = [0.0] * schedule.stages
        self.first = [0]
        for order in schedule.orders:
            self.first.append(self.first[-1] + len(order))
        self.start_s = [0.0] * self.first[-1]
        self.finish_s = [0.0] * self.first[-1]

    def run(self, fixed_time_s: float) -> Timeline:
        ready = deque(range(self.schedule.stages))
        while ready:
            ready.extend(self._advance(ready.popleft()))
        self._refuse_deadlock()
        return Timeline(
            start_s=tuple(self.start_s),
            finish_s=tuple(self.finish_s),
            iteration_time_s=max(self.free_s) + fixed_time_s,
        )

    def _advance(self, stage: int) -> list[int]:
        """Run a stage until it misses something; return the stages that its work set free."""
        woken: list[int] = []
        order = self.schedule.orders[stage]
        while self.position[stage] < len(order):
            op = order[self.position[stage]]
            missing = next((need for need in self._needs(op) if need not in self.happened), None)
            if missing is not None:
                self.waiting[missing].append(stage)
                return woken
            woken.extend(self._execute(op))
        return woken

    def _execute(self, op: Op) -> Iterator[int]:
        index = self.first[op.stage] + self.position[op.stage]
        start_s = self.free_s[op.stage]
        for need in self._needs(op):
            time_s, stage = self.happened[need]
            start_s = max(start_s, time_s + (self.p2p_time_s if stage != op.stage else 0.0))
        finish_s = start_s + self.time_s[index]
        self.start_s[index], self.finish_s[index] = start_s, finish_s
        self.free_s[op.stage] = finish_s
        self.position[op.stage] += 1
        for event in self._causes(op):
            self.happened[event] = (finish_s, op.stage)
            yield from self.waiting.pop(event, ())

    def _needs(self, op: Op) -> Iterator[Event]:
        place = self.schedule.virtual_stages[op.stage]
        virtual, microbatch = place[op.chunk], op.microbatch
        if op.kind in (OpKind.FORWARD, OpKind.FORWARD_BACKWARD) and virtual > 0:
            yield Event("forward", virtual - 1, microbatch)
        if op.kind is OpKind.FORWARD_BACKWARD:
            assert op.backward_chunk is not None and op.backward_microbatch is not None
            virtual, microbatch = place[op.backward_chunk], op.backward_microbatch
        if op.kind in (OpKind.BACKWARD, OpKind.BACKWARD_INPUT, OpKind.FORWARD_BACKWARD):
            if (op.chunk, op.microbatch) != (op.backward_chunk, op.backward_microbatch):
                yield Event("forward", virtual, microbatch)
            if virtual < self.last:
                yield Event("backward", virtual + 1, microbatch)
        if op.kind is OpKind.BACKWARD_WEIGHT:
            yield Event("backward", virtual, microbatch)

    def _causes(self, op: Op) -> Iterator[Event]:
        place = self.schedule.virtual_stages[op.stage]
        if op.kind in (OpKind.FORWARD, OpKind.FORWARD_BACKWARD):
            yield Event("forward", place[op.chunk], op.microbatch)
        if op.kind in (OpKind.BACKWARD, OpKind.BACKWARD_INPUT):
            yield Event("backward", place[op.chunk], op.microbatch)
        if op.kind is OpKind.FORWARD_BACKWARD:
            assert op.backward_chunk is not None and op.backward_microbatch is not None
            yield Event("backward", place[op.backward_chunk], op.backward_microbatch)

    def _refuse_deadlock(self) -> None:
        for stage, order in enumerate(self.schedule.orders):
            if self.position[stage] < len(order):
                op = order[self.position[stage]]
                missing = next(need for need in self._needs(op) if need not in self.happened)
                raise ScheduleError(
                    f"schedule {self.schedule.name} cannot run: {op} waits for ever for the {missing.name} of "
                    f"microbatch {missing.microbatch} on virtual stage {missing.virtual_stage}"
                )
