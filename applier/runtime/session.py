"""What a training loop calls. Each call costs the training thread about a microsecond and never waits or raises.

    session = open_session("plan.json")
    for batch in batches:
        session.step()
        with session.op("forward", microbatch=0):
            ...

An operation is looked up by kind, chunk and microbatch. What the plan does not know (evaluation, a short last
batch, ramp-up, a skipped step) runs at the safe clock, the highest that the plan has for the stage, and is reported
once.
"""

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic_ns
from types import TracebackType

from energyopt.applier.runtime.channel import BEGIN, CLOSE, END, OP_TIME, OUTSIDE, STEP, UNKNOWN, Writer
from energyopt.applier.runtime.gpu_times import GpuTimes
from energyopt.applier.runtime.helper_process import HelperProcess
from energyopt.applier.runtime.reports import Reports
from energyopt.applier.runtime.slowdown import Slowdown
from energyopt.applier.runtime.tables import UNPLANNED_KINDS, Key, StageTable

_NOTHING: dict[Key, int] = {}
_LIVE: "weakref.WeakSet[Session]" = weakref.WeakSet()


class Session:
    """One rank's shim. All calls come from the thread that launches the work.

    every: every how many iterations is recorded; 0 records none.
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
    ) -> None:
        self._table = table
        self._last = len(table.ops)
        self._microbatches = microbatches
        self._put = writer.put
        self._helper: HelperProcess | None = helper
        self._slowdown = slowdown
        self._times = times
        self._reports = reports
        self._every = every
        self._block = _OpBlock(self)
        self._positions = _NOTHING
        self._expected = UNKNOWN
        self._number = 0
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
            position = self._positions.get((kind, chunk, microbatch), UNKNOWN)
            if position != self._expected:
                self._unexpected(kind, chunk, microbatch, position)
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

    def op(self, kind: str, microbatch: int, chunk: int = 0) -> "_OpBlock":
        """`begin` and `end` around a block."""
        self.begin(kind, microbatch, chunk)
        return self._block

    def step(self, microbatches: int | None = None) -> None:
        """An iteration begins here, and the one before it ends; its microbatches, where they are not the plan's."""
        self.finish()
        self.start(microbatches)

    def start(self, microbatches: int | None = None) -> None:
        """An iteration begins here."""
        alternative = self._slowdown.alternative()  # a collective: whatever else fails, this rank takes part
        now_ns = monotonic_ns()
        try:
            self._check_whole()
            spent_ns = self._stop_sampling()
            self._start_iteration(microbatches, alternative, now_ns)
            self._write_times(spent_ns)
            if self._sampling:
                self._spent_ns = monotonic_ns() - now_ns
        except Exception as error:
            self._fail(error)

    def finish(self) -> None:
        """All microbatches are through; what follows belongs to the iteration still."""
        if self._number:
            self._slowdown.launch()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Evaluation and the like: nothing in the block is planned, and the clock is the safe one."""
        before = self._positions
        self._positions, self._expected = _NOTHING, UNKNOWN
        self._put(OUTSIDE, monotonic_ns())
        try:
            yield
        finally:
            self._positions = before

    def set_slowdown(self, slowdown: float) -> None:
        """Let an iteration take up to `slowdown` times what the plan takes, since another pipeline is slower.

        The largest wish of all ranks counts, from the next iteration on, on all ranks together. It takes a plan
        with alternatives (`apply --alternatives`). 1 takes the wish back.
        """
        self._slowdown.set(slowdown)

    def close(self) -> None:
        """Training is over: give the clocks back, write what is left. Calls that follow do nothing."""
        helper, self._helper = self._helper, None
        if helper is None:
            return
        try:
            spent_ns = self._stop_sampling()
            self._put(STEP | (self._number & 0x7FFFFFFF) << 1, monotonic_ns())
            self._write_times(spent_ns)
            self._put(CLOSE)
        except Exception as error:
            self._fail(error)
        self._silence()
        if not helper.dismiss():
            self._reports.once(
                "close",
                "the driver does not answer; if energyopt doctor shows clocks left behind, restore them",
            )

    def _start_iteration(self, microbatches: int | None, alternative: int, now_ns: int) -> None:
        number, self._number = self._number, self._number + 1
        self._sampling = bool(self._every) and number % self._every == 0
        self._put(STEP | (number & 0x7FFFFFFF) << 1 | self._sampling, now_ns, alternative)
        if self._sampling and self._times is not None:
            self._times.start()
        planned = microbatches in (None, self._microbatches)
        self._positions, self._expected = (self._table.positions, 0) if planned else (_NOTHING, UNKNOWN)
        if not planned:
            self._put(OUTSIDE, now_ns)
            self._reports.once(
                "microbatches",
                f"an iteration has {microbatches} microbatches, the plan is for {self._microbatches}: such "
                f"iterations run at {self._table.safe_mhz} MHz",
            )
        if self._helper is not None and self._helper.ended() is not None:
            self._lose_helper(self._helper)

    def _check_whole(self) -> None:
        """Say so if the last iteration did not run to its end."""
        if self._positions is not _NOTHING and self._expected not in (self._last, UNKNOWN + 1):
            self._reports.once(
                "incomplete",
                f"iteration {self._number - 1} ended after {self._expected} of the plan's {self._last} "
                "operations (a skipped step, or replayed graphs?)",
            )

    def _stop_sampling(self) -> int | None:
        """What the shim cost the iteration that ends, ns; None where it was not recorded."""
        if not self._sampling:
            return None
        self._sampling = False
        if self._times is not None:
            self._times.finish(self._spent_ns)
        return self._spent_ns

    def _write_times(self, spent_ns: int | None) -> None:
        """After the iteration's end: what the GPU took as far as it is known, and what the shim cost."""
        if self._times is None:
            if spent_ns is not None:
                self._put(OP_TIME | UNKNOWN, 0, spent_ns)
            return
        for ops, overhead_ns in self._times.ready():
            for position, start_ns, time_ns in ops:
                self._put(OP_TIME | position, max(start_ns, 0), max(time_ns, 0))
            self._put(OP_TIME | UNKNOWN, 0, overhead_ns)

    def _unexpected(self, kind: str, chunk: int, microbatch: int, position: int) -> None:
        """An operation that is not the one which follows in the plan: its clock is its own, or the safe one."""
        if self._positions is _NOTHING or kind in UNPLANNED_KINDS:
            return
        what = f"{kind} of microbatch {microbatch}" + (f", chunk {chunk}" if chunk else "")
        if position == UNKNOWN:
            self._reports.once(
                f"unknown {kind}",
                f"the plan has no {what}; such operations run at {self._table.safe_mhz} MHz",
            )
        elif self._expected <= UNKNOWN:
            self._reports.once(
                "order",
                f"{what} runs in another order than in the plan; each operation still gets its own clock",
            )

    def _lose_helper(self, helper: HelperProcess) -> None:
        self._helper = None
        self._silence()
        self._reports.once(
            "helper",
            f"the process that sets clocks has ended (exit code {helper.ended()}); its guard gives the clocks "
            "back, and training goes on without a plan",
        )

    def _fail(self, error: Exception) -> None:
        """A defect of ours must not become one of the training."""
        self._silence()
        self._reports.once("defect", f"the shim has stopped itself: {type(error).__name__}: {error}")

    def _silence(self) -> None:
        """Write no more records."""
        self._put = _nothing
        self._positions, self._expected, self._sampling, self._times = _NOTHING, UNKNOWN, False, None


class _OpBlock:
    """The block that `Session.op` gives; one serves all operations."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.end()


def _nothing(head: int, first: int = 0, second: int = 0) -> None:
    """What is written after the end."""


def _after_fork() -> None:
    """A forked worker shares the memory and must not write into it."""
    for session in tuple(_LIVE):
        session._helper = None
        session._silence()


os.register_at_fork(after_in_child=_after_fork)
