"""Putting a recorded iteration together from the training thread's records and the board's readings."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from energyopt.applier.helper.sampling import TAIL_NS, Sampler
from energyopt.applier.runtime.channel import BEGIN, END, OP_TIME, OUTSIDE, STEP, UNKNOWN, Record


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
    open: int | None = None
    ops_ns: dict[int, tuple[int, int]] = field(default_factory=dict)  # by position: start and duration
    gpu: bool = False  # whether the times are the GPU's


class Recorder:
    """Collects what `sampled` iterations did; `finished` gives each as a JSON object when all is known.

    sets, dropped: running counts, kept up to date by the loop.
    applied: whether clocks are set; the loop changes it when it has to stop.
    gpu_times: the operations' times come as OP_TIME records; those of the launching thread say nothing then.
    """

    def __init__(
        self, sampler: Sampler, clocks_mhz: Sequence[Sequence[int]], *, applied: bool, gpu_times: bool
    ) -> None:
        self.sets = 0
        self.dropped = 0
        self.applied = applied
        self._gpu_times = gpu_times
        self._sampler = sampler
        self._clocks_mhz = clocks_mhz
        self._now: _Iteration | None = None
        self._waiting: deque[_Iteration] = deque()
        self._gpu_ops: list[tuple[int, int, int]] = []  # of the list that is being read
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
        elif record.kind in (END, OUTSIDE):
            self._close_op(record.first)
            if record.kind == OUTSIDE and record.value:
                self._end(self._now, record.first)

    def wants_readings(self, now_ns: int) -> bool:
        """Whether the board should be looked at now."""
        goes_on = self._now is not None and self._now.end_ns is None
        return goes_on or now_ns < self._look_until_ns

    def finished(self, now_ns: int, *, all_of_them: bool = False) -> list[dict[str, Any]]:
        """Iterations that nothing more will become known of."""
        done = []
        while self._waiting:
            one = self._waiting[0]
            assert one.end_ns is not None
            if not all_of_them and not (one.known and now_ns >= one.end_ns + TAIL_NS):
                break
            done.append(self._to_json(self._waiting.popleft(), one.end_ns))
        if done:
            needed = [*self._waiting, *([] if self._now is None else [self._now])]
            self._sampler.forget_before(min((one.start_ns for one in needed), default=now_ns) - TAIL_NS)
        return done

    def _begin(self, one: _Iteration, record: Record) -> None:
        self._close_op(record.first)
        if record.value != UNKNOWN:
            one.end_ns = None  # where something stood outside it, it went on nevertheless
            one.open = record.value
            one.ops_ns[record.value] = (record.first, 0)

    def _end(self, one: _Iteration, now_ns: int) -> None:
        """At the next iteration's start, or where evaluation came before that."""
        if one.end_ns is None:
            one.end_ns = now_ns
            self._look_until_ns = now_ns + TAIL_NS

    def _step(self, record: Record) -> None:
        if self._now is not None:
            self._close_op(record.first)
            self._end(self._now, record.first)
            self._now.sets, self._now.dropped = self.sets - self._now.sets, self.dropped - self._now.dropped
            self._now.cpu_s = time.process_time() - self._now.cpu_s
            self._waiting.append(self._now)
        self._now = None
        if record.value & 1:
            self._now = _Iteration(
                number=record.value >> 1,
                alternative=record.second,
                start_ns=record.first,
                sets=self.sets,
                dropped=self.dropped,
                cpu_s=time.process_time(),
            )

    def _close_op(self, now_ns: int) -> None:
        one = self._now
        if one is not None and one.open is not None:
            start_ns, _ = one.ops_ns[one.open]
            one.ops_ns[one.open] = (start_ns, now_ns - start_ns)
            one.open = None

    def _op_time(self, record: Record) -> None:
        """The GPU's times come iteration by iteration, each list ended by that iteration's number."""
        if record.value != UNKNOWN:
            self._gpu_ops.append((record.value, record.first, record.second))
            return
        ops, self._gpu_ops = self._gpu_ops, []
        one = next((each for each in self._waiting if each.number == record.first and not each.known), None)
        if one is None:
            return
        one.overhead_ns = record.second
        _take_gpu_times(one, ops)
        for earlier in self._waiting:  # what has not come by now was lost
            earlier.known = True
            if earlier is one:
                break

    def _to_json(self, one: _Iteration, end_ns: int) -> dict[str, Any]:
        look = self._sampler
        timed = one.gpu or not self._gpu_times
        return {
            "iteration": one.number,
            "alternative": one.alternative if self.applied else None,
            "time_s": (end_ns - one.start_ns) * 1e-9,
            "energy_j": look.energy_j(one.start_ns, end_ns),
            "achieved_sm_clock_mhz": look.clock_mhz(one.start_ns, end_ns),
            "throttle": look.throttle(one.start_ns, end_ns),
            "clock_sets": one.sets,
            "dropped_requests": one.dropped,
            "overhead_s": None if one.overhead_ns is None else one.overhead_ns * 1e-9,
            "helper_cpu_s": one.cpu_s,
            "ops": [self._op_to_json(one, position) for position in sorted(one.ops_ns) if timed],
        }

    def _op_to_json(self, one: _Iteration, position: int) -> list[int | float | None]:
        """Position, start and time in s, clock asked for and seen, throttle bits."""
        start_ns, time_ns = one.ops_ns[position]
        asked_mhz = self._clocks_mhz[one.alternative][position] if self.applied else None
        return [
            position,
            (start_ns - one.start_ns) * 1e-9,
            time_ns * 1e-9,
            asked_mhz,
            self._sampler.clock_mhz(start_ns, start_ns + time_ns),
            self._sampler.throttle(start_ns, start_ns + time_ns),
        ]


def _take_gpu_times(one: _Iteration, ops: list[tuple[int, int, int]]) -> None:
    """They replace the launching thread's, and count from the first operation's start."""
    if ops:
        origin_ns = min((start for start, _ in one.ops_ns.values()), default=one.start_ns)
        one.ops_ns = {position: (origin_ns + start, duration) for position, start, duration in ops}
        one.gpu = True
