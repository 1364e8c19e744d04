"""When a search has looked at enough: fronts that are not expected to move any more."""

STILL = 5e-4
"""A front no longer moves where no point is expected to add more than this to its hypervolume, relative, summed
over the planes of time with dynamic and with total energy."""

QUIET_TURNS = 2
"""How many turns in a row must say so: what the first of them measures may show otherwise."""


class Patience:
    """Turns that were not expected to gain anything."""

    def __init__(self) -> None:
        self._quiet = 0

    def hear(self, best_gain: float) -> None:
        """Take note of a turn's best point."""
        self._quiet = self._quiet + 1 if best_gain < STILL else 0

    @property
    def over(self) -> bool:
        """Whether there have been `QUIET_TURNS` in a row."""
        return self._quiet >= QUIET_TURNS
