"""What became of a search."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How far it went, and why no further.

    measured, points: points that were measured, and that there are, over all partitions; sequential execution at
        every clock counts among both.
    gain: what any point was expected to add to its partition's hypervolumes, relative, at the last turn; None where
        there was none but the first.
    """

    why: str
    measured: int
    points: int
    gain: float | None = None

    @property
    def share(self) -> float:
        """The share of the points that was measured."""
        return self.measured / self.points if self.points else 0.0

    def __str__(self) -> str:
        return f"search: {self.measured} of {self.points} points measured ({self.share:.1%}); {self.why}"

    def metadata(self) -> dict[str, str | int | float | None]:
        """For a profile's metadata."""
        return {
            "search": self.why,
            "search_measured_points": self.measured,
            "search_points": self.points,
            "search_share": self.share,
            "search_expected_gain": self.gain,
        }
