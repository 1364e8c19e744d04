"""What the helper does: follow the training thread, tell the driver, read the board, until training ends."""

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from energyopt.applier.guard.owner import pidfd, start_ticks
from energyopt.applier.helper.board import Board, energy_source, open_board
from energyopt.applier.helper.clockwork import Clockwork
from energyopt.applier.helper.first_look import FirstLook
from energyopt.applier.helper.iterations import Recorder
from energyopt.applier.helper.launch_lead import LaunchLead
from energyopt.applier.helper.orders import Orders, orders_from
from energyopt.applier.helper.parent import describe, first_line, say_ready
from energyopt.applier.helper.patience import patience_ns
from energyopt.applier.helper.sampling import Sampler
from energyopt.applier.helper.shard import ShardWriter
from energyopt.applier.helper.slowdown_file import watch_file
from energyopt.applier.runtime.channel import CLOSE, Reader
from energyopt.applier.runtime.reports import Reports
from energyopt.schemas.errors import EnergyoptError

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_SETS_REMEMBERED = 9
_NEAR_NS = 2_000_000  # a reading or a line of telemetry may take as long


def main() -> int:
    """Serve one training rank, as told on standard input; 0 when its training ended."""
    for one in _IGNORED:  # a batch system sends them to everybody, and then training's end is what counts
        signal.signal(one, signal.SIG_IGN)
    line = first_line()
    if not line:
        return 0
    orders = orders_from(line)
    try:
        with open_board(orders) as board:
            say_ready(board)
            Helper(orders, board).run()
    except EnergyoptError as error:  # what stays locked must be said, whoever still reads it
        Reports(orders.rank).once("end", str(error))
        return 1
    return 0


class Helper:
    """One rank's helper at work."""

    def __init__(self, orders: Orders, board: Board) -> None:
        self._orders = orders
        self._board = board
        self._held = board.held
        self._first_look = FirstLook(board.device, known=orders.site_lock_known)
        self._reader = Reader(orders.memory)
        source = energy_source(board.device)
        self._clockwork = Clockwork(orders.clocks_mhz, orders.safe_mhz)
        self._clockwork.lead_ns = int((orders.latency_s or 0.0) * 1e9)
        self._sampler = Sampler(board.device, source)
        self._recorder = Recorder(
            self._sampler,
            every=0 if orders.shard is None else orders.every,
            gpu_times=orders.header.get("timer") == "cuda_events",
        )
        self._lead = LaunchLead()
        self._reports = Reports(orders.rank)
        self._shard = self._open_shard(source)
        self._reports.passed_on = self._record_report
        self._set_mhz: int | None = None
        self._set_took_ns: list[int] = []
        self._heard_ns = time.monotonic_ns()

    def run(self) -> None:
        """Until training ends: it says so, it closes its end of standard input, or its process is gone."""
        if self._orders.slowdown_file is not None:
            watch_file(Path(self._orders.slowdown_file), self._reader.wish_slowdown, self._reports)
        poller = select.poll()
        poller.register(0, select.POLLIN)
        watched = pidfd(self._orders.pid)
        if watched is not None:
            poller.register(watched, select.POLLIN)
        while self._follow():
            ready = dict(poller.poll(self._wait_ms()))
            if (0 in ready and not self._listen()) or (watched in ready) or self._orphaned(watched):
                break
        self._finish()

    def _follow(self) -> bool:
        """Catch up with training and do what is due; False once it has said that it is over."""
        going_on = self._catch_up()
        now_ns = time.monotonic_ns()
        self._reader.beat(now_ns)
        self._tell_driver(now_ns)
        now_ns = time.monotonic_ns()
        if not self._set_is_near(now_ns):
            self._read_board(now_ns)
            for iteration in self._recorder.finished(now_ns):
                self._write(iteration)
        return going_on

    def _catch_up(self) -> bool:
        """Take in every record; False once training is over."""
        going_on = True
        while (record := self._reader.take()) is not None:
            self._clockwork.feed(record)
            self._recorder.feed(record)
            self._first_look.feed(record)
            self._lead.feed(record)
            self._heard_ns = max(self._heard_ns, record.first)
            going_on = going_on and record.kind != CLOSE
        return going_on

    def _tell_driver(self, now_ns: int) -> None:
        if self._held is not None and (complaint := self._lead.complaint) is not None:
            self._stop_setting(complaint)
        target = self._clockwork.target_mhz(now_ns)
        if self._held is None or target is None or target == self._set_mhz:
            return
        try:
            if not self._first_look.allows(now_ns):
                return
            self._held.lock(target)
        except EnergyoptError as error:
            self._stop_setting(str(error))
            return
        self._set_mhz = target
        self._clockwork.told(target)
        self._recorder.asked.told(now_ns, target, self._clockwork.wanted_for)
        self._recorder.sets += 1
        self._recorder.dropped = self._clockwork.dropped
        self._learn_latency(time.monotonic_ns() - now_ns)

    def _learn_latency(self, took_ns: int) -> None:
        """Where nobody measured how long a clock takes to land, take how long it takes to be told."""
        if self._orders.latency_s is None:
            self._set_took_ns = [*self._set_took_ns, took_ns][-_SETS_REMEMBERED:]
            self._clockwork.lead_ns = int(median(self._set_took_ns))

    def _stop_setting(self, why: str) -> None:
        """A board that refuses, or cannot be told in time, is given back, and only observed from here on."""
        self._reports.once("set", f"{why}; from here on its clocks are left alone")
        if self._held is not None:
            with suppress(EnergyoptError):  # said when the block ends; its guard tries as well
                self._held.stop()
        self._held = None
        self._recorder.asked.told(time.monotonic_ns(), None, None)

    def _set_is_near(self, now_ns: int) -> bool:
        due_ns = self._clockwork.due_ns
        return self._held is not None and due_ns is not None and due_ns - now_ns < _NEAR_NS

    def _read_board(self, now_ns: int) -> None:
        if not self._recorder.wants_readings(now_ns):
            return
        try:
            self._sampler.look(now_ns)
        except EnergyoptError as error:
            self._reports.once("read", f"{error}; its energy and clock are no longer recorded")

    def _wait_ms(self) -> int:
        """Until the next change is due, but no longer than an early one may go unseen."""
        now_ns = time.monotonic_ns()
        wait_ns = patience_ns(
            quiet_ns=now_ns - self._heard_ns,
            span_ns=self._clockwork.span_ns,
            lead_ns=self._clockwork.lead_ns,
            sets=self._held is not None,
            look_in_ns=self._look_in_ns(now_ns),
        )
        due_ns = self._clockwork.due_ns
        if due_ns is not None:
            wait_ns = min(wait_ns, max(due_ns - now_ns, 0))
        return -(-wait_ns // 1_000_000)

    def _look_in_ns(self, now_ns: int) -> int | None:
        at_ns = self._sampler.next_ns
        return None if at_ns is None or not self._recorder.wants_readings(now_ns) else at_ns - now_ns

    def _listen(self) -> bool:
        """Reports of the training thread, line by line, for the shard; False when it has closed its end."""
        said = os.read(0, 65536)
        for line in said.decode(errors="replace").splitlines():
            self._record_report(line)
        return bool(said)

    def _orphaned(self, watched: int | None) -> bool:
        return watched is None and start_ticks(self._orders.pid) != self._orders.start_ticks

    def _open_shard(self, source: str | None) -> ShardWriter | None:
        if self._orders.shard is None:
            return None
        found = {"board": describe(self._board), "energy_source": source, "applied": self._held is not None}
        header = self._orders.header | found
        return ShardWriter(
            Path(self._orders.shard), header, lambda text: self._reports.once("telemetry", text)
        )

    def _record_report(self, text: str) -> None:
        self._write({"report": text})

    def _write(self, value: dict[str, Any]) -> None:
        if self._shard is not None:
            self._shard.write(value)

    def _finish(self) -> None:
        self._catch_up()  # the end of the pipe may be seen before the last records
        if self._held is not None:  # before anything that a slow disk holds up
            with suppress(EnergyoptError):  # said when the block ends, where it is tried again
                self._held.stop()
        for iteration in self._recorder.finished(time.monotonic_ns(), all_of_them=True):
            self._write(iteration)
        if self._reader.lost:
            self._write({"report": f"{self._reader.lost} records of the training thread were lost"})
        if self._shard is not None:
            self._shard.close()
