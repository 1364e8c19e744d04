"""What a training loop calls. Nothing here raises, and what is called around operations never waits.

That costs the training thread about a microsecond. Only where an iteration begins may it wait for other ranks, if
the plan has alternatives (`agreement`).

    session = open_session("plan.json")
    for batch in batches:
        session.step()
        with session.op("forward", microbatch=0):
            ...

An operation is looked up by kind, chunk and microbatch. What the plan does not know (evaluation, a short last
batch, ramp-up, a skipped step) runs at the safe clock, the highest that the plan has for the stage, and is reported
once. How the running operation's partitions run is asked with `nanobatches`, `partition` and `overlap`.
"""

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic_ns

from energyopt.applier.overlap.following import Following
from energyopt.applier.overlap.ways import Key, Ways
from energyopt.applier.runtime.block import OpBlock
from energyopt.applier.runtime.channel import BEGIN, CLOSE, END, NUMBER_MASK, OUTSIDE, STEP, UNKNOWN, Writer
from energyopt.applier.runtime.complaints import Complaints
from energyopt.applier.runtime.gpu_times import Ended, GpuTimes, is_timed, write_times
from energyopt.applier.runtime.helper_process import HelperProcess
from energyopt.applier.runtime.reports import Reports
from energyopt.applier.runtime.slowdown import Slowdown
from energyopt.applier.runtime.tables import StageTable

_NOTHING: dict[Key, int] = {}
_LIVE: "weakref.WeakSet[Session]" = weakref.WeakSet()
_SILENT_NS = 30_000_000_000


class Session(Following):
    """One rank's shim. All calls come from the thread that launches the work.

    every: every how many iterations is recorded; 0 records none.
    plan_sha256: of the plan's file; None where its partitions are not to be followed.
    """

    def __init__(
        self,
        *,
        table: StageTable,
        microbatches: int,
        writer: Writer,
        helper: HelperProcess,
        slowdown: Slowdown,
        times: GpuTimes | None,
        reports: Reports,
        every: int,
        plan_sha256: str | None = None,
    ) -> None:
        self._table = table
        self._last = len(table.ops)
        self._microbatches = microbatches
        self._put = writer.put
        self._heartbeat_ns = writer.heartbeat_ns
        self._helper: HelperProcess | None = helper
        self._slowdown = slowdown
        self._times = times
        self._say = Complaints(table, microbatches, reports)
        self._every = every
        self._block = OpBlock(self.end)
        self.ways = Ways(table.ways, reports, plan_sha256)
        self._silent = False
        self._positions = _NOTHING
        self._expected = UNKNOWN
        self._started = False
        self._number = -1
        self._sampling = False
        self._spent_ns = 0
        _LIVE.add(self)

    def begin(
        self,
        kind: str,
        microbatch: int,
        chunk: int = 0,
        backward_chunk: int | None = None,  # noqa: ARG002 - part of the operation, not of its key
        backward_microbatch: int | None = None,  # noqa: ARG002
    ) -> None:
        """Right before an operation's work is launched."""
        now_ns = monotonic_ns()
        try:
            key = (kind, chunk, microbatch)
            self.ways.begin(key)
            position = self._positions.get(key, UNKNOWN)
            if position != self._expected and self._positions is not _NOTHING:
                self._say.unexpected(kind, chunk, microbatch, position, self._expected)
            self._expected = position + 1
            self._put(BEGIN | position, now_ns)
            if self._sampling:
                if self._times is not None:
                    self._times.begin(position)
                self._spent_ns += monotonic_ns() - now_ns
        except Exception as error:
            self._fail(error)

    def end(self) -> None:
        """Right after its work was launched."""
        self.ways.end()
        if not self._sampling and self._expected != self._last:
            return  # the next operation's begin says enough
        now_ns = monotonic_ns()
        try:
            self._put(END, now_ns)
            if self._sampling:
                if self._times is not None:
                    self._times.end()
                self._spent_ns += monotonic_ns() - now_ns
        except Exception as error:
            self._fail(error)

    def op(self, kind: str, microbatch: int, chunk: int = 0) -> OpBlock:
        """`begin` and `end` around a block."""
        self.begin(kind, microbatch, chunk)
        return self._block

    def step(self, microbatches: int | None = None) -> None:
        """An iteration begins here, and the one before it ends; its microbatches, where they are not the plan's.

        What the ranks said to each other at the last step counts now, and what this one wishes is said now: in
        between lies an iteration, so that no rank waits for the others to come to this very place.
        """
        self.start(microbatches)
        self.finish()

    def start(self, microbatches: int | None = None) -> None:
        """An iteration begins here."""
        called_ns, self._started = monotonic_ns(), True
        alternative = self._slowdown.alternative()  # a collective: whatever else fails, this rank takes part
        self.ways.iteration(microbatches, self._microbatches)
        if self._silent:
            return
        now_ns = monotonic_ns()
        try:
            self._check_whole()
            ended = self._stop_sampling()
            self._start_iteration(microbatches, alternative, now_ns)
            write_times(self._put, self._times, ended)
            self._look_after_helper(now_ns)
            if self._sampling:
                self._spent_ns = monotonic_ns() - called_ns
        except Exception as error:
            self._fail(error)

    def finish(self) -> None:
        """All microbatches are through; what follows belongs to the iteration still."""
        if not self._started:
            return
        now_ns = monotonic_ns()
        self._slowdown.launch()
        self._spent_ns += monotonic_ns() - now_ns

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Evaluation and the like: nothing in the block is planned, and the clock is the safe one."""
        before = self._positions, self._expected
        self._positions, self._expected = _NOTHING, UNKNOWN
        self._put(OUTSIDE | 1, monotonic_ns())
        try:
            with self.ways.outside():
                yield
        finally:
            if not self._silent:
                self._positions, self._expected = before

    def set_slowdown(self, slowdown: float) -> None:
        """Let an iteration take up to `slowdown` times what the plan takes, since another pipeline is slower.

        The largest wish of all ranks counts, on all ranks together, from the next iteration on; in a loop that
        calls `step`, from the one after that. It takes a plan with alternatives (`apply --alternatives`). 1 takes
        the wish back.
        """
        self._slowdown.set(slowdown)

    def close(self) -> None:
        """Training is over: give the clocks back, write what is left. Calls that follow do nothing."""
        helper, self._helper = self._helper, None
        if helper is None:
            return
        try:
            ended = self._stop_sampling()
            write_times(self._put, self._times, ended)
            self._put(CLOSE)
        except Exception as error:
            self._fail(error)
        self._silence()
        self._slowdown.close()
        if not helper.dismiss():
            self._say.helper_hung()

    def _start_iteration(self, microbatches: int | None, alternative: int, now_ns: int) -> None:
        self._number += 1
        recorded = bool(self._every) and self._number % self._every == 0
        self._sampling = recorded or (self._times is not None and is_timed(self._number))
        self._put(STEP | (self._number & NUMBER_MASK) << 1 | recorded, now_ns, alternative)
        if self._sampling and self._times is not None:
            self._times.start()
        if microbatches is None or microbatches == self._microbatches:
            self._positions, self._expected = self._table.positions, 0
        else:
            self._positions, self._expected = _NOTHING, UNKNOWN
            self._put(OUTSIDE, now_ns)
            self._say.microbatches(microbatches)

    def _check_whole(self) -> None:
        """Say so if the last iteration did not run to its end."""
        if self._positions is not _NOTHING and self._expected not in (self._last, UNKNOWN + 1):
            self._say.incomplete(self._number, self._expected)

    def _stop_sampling(self) -> Ended | None:
        """The number of the iteration that ends and what the shim cost it, ns; None where it was not recorded."""
        if not self._sampling:
            return None
        self._sampling = False
        number = self._number & NUMBER_MASK
        if self._times is not None:
            self._times.finish(number, self._spent_ns)
        return number, self._spent_ns

    def _look_after_helper(self, now_ns: int) -> None:
        helper = self._helper
        if helper is not None and (code := helper.ended()) is not None:
            self._silence()
            self._say.helper_ended(code)
            helper.give_back_after()
        elif now_ns - (self._heartbeat_ns() or now_ns) > _SILENT_NS:
            self._say.helper_silent((now_ns - self._heartbeat_ns()) * 1e-9)

    def _fail(self, error: Exception) -> None:
        """A defect of ours must not become one of the training, nor leave it at some operation's clock."""
        put = self._put
        self._silence()
        with suppress(Exception):
            put(CLOSE)
        self._say.stopped(error)

    def _silence(self) -> None:
        """Write no more records."""
        self._silent, self._put = True, _nothing
        self._positions, self._expected, self._sampling, self._times = _NOTHING, UNKNOWN, False, None


def _nothing(head: int, first: int = 0, second: int = 0) -> None:
    """What is written after the end."""


def _after_fork() -> None:
    """A forked worker shares the memory and must not write into it."""
    for session in tuple(_LIVE):
        session._helper = None
        session._silence()


os.register_at_fork(after_in_child=_after_fork)
