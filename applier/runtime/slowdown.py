"""Moving along the frontier during a run, when a straggler elsewhere leaves time to save energy in."""

from collections.abc import Callable
from math import inf

from energyopt.applier.runtime.agreement import Agreement
from energyopt.applier.runtime.reports import Reports
from energyopt.applier.runtime.tables import StageTable


class Slowdown:
    """One rank's wish, and the point of the frontier that all ranks have agreed on.

    agreement: None where the plan has no alternatives: then there is nothing to agree on.
    operator_wish: what an operator's file asks for now; 0 for nothing.
    """

    def __init__(
        self,
        table: StageTable,
        agreement: Agreement | None,
        operator_wish: Callable[[], float],
        reports: Reports,
        wish: float,
    ) -> None:
        self._table = table
        self._agreement = agreement
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
            self._give_up(f"the ranks can no longer slow down together: {error}")

    def alternative(self) -> int:
        """Where an iteration begins: the alternative that all ranks run now; 0 is the plan itself."""
        if self._agreement is None:
            if self._operator_wish() > 1.0:
                self._check_possible()
            return 0
        self._launched = False
        try:
            agreed = self._agreement.result()
        except Exception as error:
            return self._give_up(f"the ranks can no longer slow down together: {error}")
        if agreed is None:
            return self._give_up("not every rank runs the shim, so the ranks cannot slow down together")
        return self._table.alternative_for(agreed)

    def _check_possible(self) -> None:
        if self._agreement is None:
            self._reports.once(
                "alternatives",
                "the plan has no alternatives to slow down to, or the ranks cannot agree on one; "
                "write it with apply --alternatives",
            )

    def _give_up(self, why: str) -> int:
        self._agreement = None
        self._reports.once("agreement", why)
        return 0
