"""Putting a recorded iteration together from the training thread's records and the board's readings."""

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from energyopt.applier.helper.asked import AskedClocks
from energyopt.applier.helper.expected import NextRecorded
from energyopt.applier.helper.sampling import TAIL_NS, Sampler
from energyopt.applier.runtime.channel import ANCHOR, BEGIN, END, OP_TIME, OUTSIDE, STEP, UNKNOWN, Record

_UNSURE_NS = 2_000_000
"""How far off operations' starts on the GPU may be; else they are told without, and without what was seen."""


@dataclass(slots=True, kw_only=True)
class _Op:
    """One operation: when it began, None where that is not known, and how far off that may be; what it took."""

    start_ns: int | None
    time_ns: int = 0
    unsure_ns: int = 0


@dataclass(slots=True, kw_only=True)
class _Iteration:
    number: int
    alternative: int
    start_ns: int
    sets: int
    dropped: int
    cpu_s: float
    end_ns: int | None = None
    overhead_ns: int | None = None
    known: bool = False  # whether what comes after its end has come
    open: tuple[int, int] | None = None  # position and launch of the operation that runs
    last: tuple[int, int] | None = None  # of the one whose clock is not looked up yet
    ops: dict[int, _Op] = field(default_factory=dict)  # by position
    asked_mhz: dict[int, int | None] = field(default_factory=dict)  # by position
    applied: bool = False  # whether the driver had been told a clock for all of it
    gpu: bool = False  # whether the times are the GPU's


class Recorder:
    """Collects what `sampled` iterations did; `finished` gives each as a JSON object when all is known.

    An iteration that is open when training ends is not given: nobody knows when it ended.

    sets, dropped: running counts, kept up to date by the loop.
    asked: what the driver was told, kept up to date by the loop.
    every: every how many iterations is recorded; 0 for none.
    gpu_times: the operations' times come as OP_TIME records; those of the launching thread say nothing then.
    """

    def __init__(self, sampler: Sampler, *, every: int, gpu_times: bool) -> None:
        self.sets = 0
        self.dropped = 0
        self.asked = AskedClocks()
        self._gpu_times = gpu_times
        self._sampler = sampler
        self._next = NextRecorded(every)
        self._now: _Iteration | None = None
        self._waiting: deque[_Iteration] = deque()
        self._gpu_ops: list[tuple[int, int, int]] = []  # of the list that is being read
        self._anchor: tuple[int, int] | None = None
        self._look_until_ns = 0

    def feed(self, record: Record) -> None:
        """Take in what the training thread wrote."""
        if record.kind == STEP:
            self._step(record)
        elif record.kind == OP_TIME:
            self._op_time(record)
        elif self._now is None:
            return
        elif record.kind == BEGIN:
            self._begin(self._now, record)
        elif record.kind == END:
            _close_op(self._now, record.first)
        elif record.kind == OUTSIDE:
            self._leave_op(self._now, record.first)
            if record.value:
                self._end(self._now, record.first)

    def wants_readings(self, now_ns: int) -> bool:
        """Whether the board should be looked at now."""
        goes_on = self._now is not None and self._now.end_ns is None
        return goes_on or now_ns < self._look_until_ns or self._next.is_near(now_ns)

    def finished(self, now_ns: int, *, all_of_them: bool = False) -> list[dict[str, Any]]:
        """Iterations that nothing more will become known of."""
        done = []
        while self._waiting:
            one = self._waiting[0]
            assert one.end_ns is not None
            if not all_of_them and not (one.known and now_ns >= one.end_ns + TAIL_NS):
                break
            done.append(self._to_json(self._waiting.popleft(), one.end_ns))
        needed = [*self._waiting, *([] if self._now is None else [self._now])]
        if done or not needed:  # an iteration may begin now, so that what came before it is kept
            self._sampler.forget_before(min((one.start_ns for one in needed), default=now_ns) - TAIL_NS)
        return done

    def _begin(self, one: _Iteration, record: Record) -> None:
        self._leave_op(one, record.first)
        if record.value != UNKNOWN:
            one.end_ns = None  # where something stood outside it, it went on nevertheless
            one.open = one.last = record.value, record.first
            one.ops[record.value] = _Op(start_ns=record.first)

    def _leave_op(self, one: _Iteration, now_ns: int) -> None:
        """Something else begins. Work that was launched for the operation may have gone on until then."""
        _close_op(one, now_ns)
        if one.last is not None:
            position, begin_ns = one.last
            end_ns = now_ns if self._gpu_times else begin_ns + one.ops[position].time_ns
            one.asked_mhz[position] = self.asked.of(position, begin_ns, end_ns)
            one.last = None

    def _end(self, one: _Iteration, now_ns: int) -> None:
        """At the next iteration's start, or where evaluation came before that."""
        if one.end_ns is None:
            one.end_ns = now_ns
            self._look_until_ns = now_ns + TAIL_NS

    def _step(self, record: Record) -> None:
        if self._now is not None:
            self._leave_op(self._now, record.first)
            self._end(self._now, record.first)
            self._now.sets, self._now.dropped = self.sets - self._now.sets, self.dropped - self._now.dropped
            self._now.cpu_s = time.process_time() - self._now.cpu_s
            self._now.applied = self._was_asked_for(self._now, record.first)
            self._waiting.append(self._now)
        self._now = None
        self._next.step(record.first, recorded=bool(record.value & 1))
        if record.value & 1:
            self._now = _Iteration(
                number=record.value >> 1,
                alternative=record.second,
                start_ns=record.first,
                sets=self.sets,
                dropped=self.dropped,
                cpu_s=time.process_time(),
            )

    def _op_time(self, record: Record) -> None:
        """The GPU's times come iteration by iteration, each list ended by that iteration's number."""
        if record.value == ANCHOR:
            self._anchor = record.first, record.second
            return
        if record.value != UNKNOWN:
            self._gpu_ops.append((record.value, record.first, record.second))
            return
        ops, anchor, self._gpu_ops, self._anchor = self._gpu_ops, self._anchor, [], None
        one = next((each for each in self._waiting if each.number == record.first and not each.known), None)
        if one is None:
            return
        one.overhead_ns = record.second
        _take_gpu_times(one, ops, anchor)
        for earlier in self._waiting:  # what has not come by now was lost
            earlier.known = True
            if earlier is one:
                break

    def _to_json(self, one: _Iteration, end_ns: int) -> dict[str, Any]:
        look = self._sampler
        timed = one.gpu or not self._gpu_times
        return {
            "iteration": one.number,
            "alternative": one.alternative if one.applied else None,
            "time_s": (end_ns - one.start_ns) * 1e-9,
            "energy_j": look.energy_j(one.start_ns, end_ns),
            "achieved_sm_clock_mhz": look.clock_mhz(one.start_ns, end_ns),
            "throttle": look.throttle(one.start_ns, end_ns),
            "clock_sets": one.sets,
            "dropped_requests": one.dropped,
            "overhead_s": None if one.overhead_ns is None else one.overhead_ns * 1e-9,
            "helper_cpu_s": one.cpu_s,
            "ops": [self._op_to_json(one, position) for position in sorted(one.ops) if timed],
        }

    def _was_asked_for(self, one: _Iteration, end_ns: int) -> bool:
        return self.asked.before(end_ns) is not None and None not in one.asked_mhz.values()

    def _op_to_json(self, one: _Iteration, position: int) -> list[int | float | None]:
        """Position, start and time in s, clock asked for and seen, throttle bits."""
        op, asked_mhz = one.ops[position], one.asked_mhz.get(position)
        if op.start_ns is None:
            return [position, None, op.time_ns * 1e-9, asked_mhz, None, None]
        span_ns = op.start_ns + op.unsure_ns, op.start_ns + op.time_ns - op.unsure_ns
        return [
            position,
            (op.start_ns - one.start_ns) * 1e-9,
            op.time_ns * 1e-9,
            asked_mhz,
            self._sampler.clock_mhz(*span_ns),
            self._sampler.throttle(*span_ns),
        ]


def _close_op(one: _Iteration, now_ns: int) -> None:
    if one.open is not None:
        position, begin_ns = one.open
        one.ops[position].time_ns = now_ns - begin_ns
        one.open = None


def _take_gpu_times(one: _Iteration, ops: list[tuple[int, int, int]], anchor: tuple[int, int] | None) -> None:
    """They replace the launching thread's, and count from the first operation's start, as far as that is known."""
    if not ops:
        return
    one.gpu = True
    if anchor is None or anchor[1] > 2 * _UNSURE_NS:
        one.ops = {position: _Op(start_ns=None, time_ns=time_ns) for position, _, time_ns in ops}
        return
    unsure_ns = -(-anchor[1] // 2)
    origin_ns = anchor[0] + unsure_ns
    one.ops = {
        position: _Op(start_ns=origin_ns + start_ns, time_ns=time_ns, unsure_ns=unsure_ns)
        for position, start_ns, time_ns in ops
    }
