"""Running a plan on paper: stages execute their lists, wait for each other's messages, and draw power.

This is the check on everything the solver says. It shares no code with it: no dependency graph is built, no
longest path is computed and no option is pruned; each stage is a process that runs until a message is missing.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.ops import Op, OpKind, Schedule


class Event(NamedTuple):
    """Something that has happened to a microbatch at a place of the model."""

    name: str  # "forward", "backward" (its gradient for the input exists)
    virtual_stage: int
    microbatch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """When every operation ran; both follow `Schedule.ops`, in seconds from the iteration's start."""

    start_s: tuple[float, ...] | Floats
    finish_s: tuple[float, ...] | Floats
    iteration_time_s: float


def simulate(
    schedule: Schedule, time_s: Sequence[float], p2p_time_s: float = 0.0, fixed_time_s: float = 0.0
) -> Timeline:
    """Execute a schedule with the given duration for each operation of `Schedule.ops`.

    Raises:
        ScheduleError: stages wait for each other for ever, or for something that never happens.
    """
    found = _Simulation(schedule, list(time_s), p2p_time_s, max)
    found.run()
    return Timeline(
        start_s=tuple(found.start_s),
        finish_s=tuple(found.finish_s),
        iteration_time_s=max(found.free_s) + fixed_time_s,
    )


def simulate_plans(
    schedule: Schedule, time_s: Floats, p2p_time_s: float = 0.0, fixed_time_s: float = 0.0
) -> list[Timeline]:
    """Execute a schedule with several plans' durations [n, P] at once: one pass, P numbers at a time.

    Raises:
        As `simulate`.
    """
    found = _Simulation(schedule, list(time_s), p2p_time_s, np.maximum)
    found.run()
    start_s, finish_s = np.array(found.start_s), np.array(found.finish_s)
    total_s = np.max(found.free_s, axis=0) + fixed_time_s
    return [
        Timeline(start_s=start_s[:, plan], finish_s=finish_s[:, plan], iteration_time_s=float(total_s[plan]))
        for plan in range(time_s.shape[1])
    ]


def iteration_energy_j(
    timeline: Timeline, time_s: Sequence[float], energy_j: Sequence[float], wait_power_w: float, stages: int
) -> float:
    """Energy of one iteration with one GPU per stage: what operations draw, and wait power in between."""
    busy_s, drawn_j = sum(time_s), sum(energy_j)
    return drawn_j + wait_power_w * (stages * timeline.iteration_time_s - busy_s)


class _Simulation:
    """Times are numbers, or arrays with one for each plan: who runs when depends on the schedule alone."""

    def __init__(
        self, schedule: Schedule, time_s: list[Any], p2p_time_s: float, latest: Callable[[Any, Any], Any]
    ) -> None:
        """latest: the later of two times."""
        self.schedule = schedule
        self.time_s = time_s
        self.p2p_time_s = p2p_time_s
        self.latest = latest
        nothing = time_s[0] * 0.0 if time_s else 0.0
        self.last = max(virtual for chunks in schedule.virtual_stages for virtual in chunks)
        self.happened: dict[Event, tuple[Any, int]] = {}
        self.waiting: defaultdict[Event, list[int]] = defaultdict(list)
        self.position = [0] * schedule.stages
        self.free_s = [nothing] * schedule.stages
        self.first = [0]
        for order in schedule.orders:
            self.first.append(self.first[-1] + len(order))
        self.start_s = [nothing] * self.first[-1]
        self.finish_s = [nothing] * self.first[-1]

    def run(self) -> None:
        ready = deque(range(self.schedule.stages))
        while ready:
            ready.extend(self._advance(ready.popleft()))
        self._refuse_deadlock()

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
            start_s = self.latest(start_s, time_s + (self.p2p_time_s if stage != op.stage else 0.0))
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
