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
    open: int | None = None
    ops_ns: dict[int, tuple[int, int]] = field(default_factory=dict)  # by position: start and duration
    gpu: bool = False  # whether the times are the GPU's, which count from the first operation's start
    start_of_ops_ns: int = 0


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
            self._close_op(record.first)
            if record.value != UNKNOWN:
                self._now.open = record.value
                self._now.ops_ns[record.value] = (record.first, 0)
        elif record.kind in (END, OUTSIDE):
            self._close_op(record.first)

    def wants_readings(self, now_ns: int) -> bool:
        """Whether the board should be looked at now."""
        return self._now is not None or now_ns < self._look_until_ns

    def finished(self, now_ns: int, *, all_of_them: bool = False) -> list[dict[str, Any]]:
        """Iterations that nothing more will become known of."""
        done = []
        while self._waiting:
            one = self._waiting[0]
            assert one.end_ns is not None
            known = one.overhead_ns is not None and now_ns >= one.end_ns + TAIL_NS
            if not (known or all_of_them):
                break
            done.append(self._to_json(self._waiting.popleft(), one.end_ns))
        if done:
            needed = [*self._waiting, *([] if self._now is None else [self._now])]
            self._sampler.forget_before(min((one.start_ns for one in needed), default=now_ns) - TAIL_NS)
        return done

    def _step(self, record: Record) -> None:
        if self._now is not None:
            self._close_op(record.first)
            self._now.end_ns = record.first
            self._now.sets, self._now.dropped = self.sets - self._now.sets, self.dropped - self._now.dropped
            self._now.cpu_s = time.process_time() - self._now.cpu_s
            self._waiting.append(self._now)
            self._look_until_ns = record.first + TAIL_NS
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
        """The GPU's own times replace those of the launching thread; they come iteration by iteration."""
        one = next((each for each in self._waiting if each.overhead_ns is None), None)
        if one is None:
            return
        if record.value == UNKNOWN:
            one.overhead_ns = record.second
            return
        if not one.gpu:
            one.start_of_ops_ns = min((start for start, _ in one.ops_ns.values()), default=one.start_ns)
            one.ops_ns.clear()
            one.gpu = True
        one.ops_ns[record.value] = (one.start_of_ops_ns + record.first, record.second)

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
