"""Moving along the frontier during a run, when a straggler elsewhere leaves time to save energy in."""

from collections.abc import Callable
from contextlib import suppress
from math import inf

from energyopt.applier.runtime.agreement import Agreement
from energyopt.applier.runtime.reports import Reports
from energyopt.applier.runtime.tables import StageTable

_LONGEST = 200  # of what a library says of its failure


class Slowdown:
    """One rank's wish, and the point of the frontier that all ranks have agreed on.

    join: makes the agreement where the first iteration begins, not before: by then torch.distributed has been
        started. None where the plan has no alternatives: then there is nothing to agree on.
    operator_wish: what an operator's file asks for now; 0 for nothing.
    """

    def __init__(
        self,
        table: StageTable,
        join: Callable[[], Agreement] | None,
        operator_wish: Callable[[], float],
        reports: Reports,
        wish: float,
    ) -> None:
        self._table = table
        self._join = join
        self._agreement: Agreement | None = None
        self._operator_wish = operator_wish
        self._reports = reports
        self._launched = False
        self.wish = 1.0
        if wish != 1.0:
            self.set(wish)

    def set(self, slowdown: float) -> None:
        """Wish that an iteration may take `slowdown` times what the plan takes."""
        if not isinstance(slowdown, int | float) or not 1.0 <= slowdown < inf:
            self._reports.once(
                f"slowdown {str(slowdown)[:20]}",
                f"a slowdown is a number of at least 1, not {str(slowdown)[:20]}; ignored",
            )
            return
        if slowdown > 1.0:
            self._check_possible()
        self.wish = float(slowdown)

    def launch(self) -> None:
        """At an iteration's end: start agreeing."""
        if self._agreement is None or self._launched:
            return
        self._launched = True
        try:
            self._agreement.launch(max(self.wish, self._operator_wish()))
        except Exception as error:
            self._give_up(error)

    def alternative(self) -> int:
        """Where an iteration begins: the alternative that all ranks run now; 0 is the plan itself."""
        if self._join is None:
            if self._operator_wish() > 1.0:
                self._check_possible()
            return 0
        self.launch()  # where nobody said that the last iteration had ended: the others have launched theirs
        try:
            return self._table.alternative_for(self._agreed(self._join))
        except Exception as error:
            self._give_up(error)
            return 0

    def close(self) -> None:
        """Training is over."""
        agreement, self._agreement, self._join = self._agreement, None, None
        if agreement is not None:
            with suppress(Exception):
                agreement.close()

    def _agreed(self, join: Callable[[], Agreement]) -> float:
        if self._agreement is None:
            self._agreement = join()
        self._launched = False
        return self._agreement.result()

    def _check_possible(self) -> None:
        if self._join is None:
            self._reports.once(
                "alternatives",
                "the plan has no alternatives to slow down to, or the ranks cannot agree on one; "
                "write it with apply --alternatives",
            )

    def _give_up(self, error: Exception) -> None:
        """For good."""
        self.close()
        text = " ".join(str(error).split())[:_LONGEST] or type(error).__name__
        self._reports.once(
            "agreement", f"the ranks cannot slow down together: {text}; the plan itself is run"
        )
