"""What a session says when training does not go as planned, once each."""

from energyopt.applier.runtime.channel import UNKNOWN
from energyopt.applier.runtime.reports import Reports
from energyopt.applier.runtime.tables import UNPLANNED_KINDS, StageTable


class Complaints:
    """The words of one session."""

    def __init__(self, table: StageTable, microbatches: int, reports: Reports) -> None:
        self._table = table
        self._microbatches = microbatches
        self._reports = reports
        if table.left_out:
            reports.once(
                "alternatives",
                f"{table.left_out} of the plan's alternatives run other operations, parts or partitions than the "
                "plan, and are left out: they change clocks alone (write the plan anew: energyopt apply)",
            )

    def unexpected(self, kind: str, chunk: int, microbatch: int, position: int, expected: int) -> None:
        """An operation that is not the one which follows in the plan: its clock is its own, or the safe one."""
        if kind in UNPLANNED_KINDS:
            return
        what = f"{kind} of microbatch {microbatch}" + (f", chunk {chunk}" if chunk else "")
        if position == UNKNOWN:
            self._reports.once(
                f"unknown {kind}",
                f"the plan has no {what}; such operations run at {self._table.safe_mhz} MHz",
            )
        elif expected <= UNKNOWN:
            self._reports.once(
                "order",
                f"{what} runs in another order than in the plan; each operation still gets its own clock",
            )

    def incomplete(self, number: int, begun: int) -> None:
        """An iteration that did not run to its end."""
        self._reports.once(
            "incomplete",
            f"iteration {number} ended after {begun} of the plan's {len(self._table.ops)} operations "
            "(a skipped step, or replayed graphs?)",
        )

    def microbatches(self, found: object) -> None:
        """An iteration of another length: none of its operations are the plan's."""
        self._reports.once(
            "microbatches",
            f"an iteration has {found} microbatches, the plan is for {self._microbatches}: such iterations run "
            f"at {self._table.safe_mhz} MHz",
        )

    def helper_ended(self, code: int | None) -> None:
        """It was killed, or has failed."""
        self._reports.once(
            "helper",
            f"the process that sets clocks has ended (exit code {code}); its guard gives the clocks back, and "
            "training goes on without a plan",
        )

    def helper_silent(self, seconds: float) -> None:
        """It lives but does nothing."""
        self._reports.once(
            "silent",
            f"the process that sets clocks has done nothing for {seconds:.0f} s (a driver that does not answer?); "
            "meanwhile the clock stays as it is",
        )

    def helper_hung(self) -> None:
        """It did not end when training did."""
        self._reports.once(
            "close",
            "the process that sets clocks did not end and was killed; its guard gives the clocks back: if "
            "energyopt doctor shows some left behind, restore them",
        )

    def stopped(self, error: Exception) -> None:
        """A defect of the shim."""
        self._reports.once(
            "defect",
            f"the shim has stopped itself: {type(error).__name__}: {error}; the clocks are given back, and "
            "training goes on without a plan",
        )
