"""What a user may ask of peak power."""

import math
from dataclasses import dataclass

from energyopt.schemas.errors import RequestError

_ROUNDING = 1e-9  # relative: a peak above the cap by rounding alone obeys


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakRule:
    """What counts as a peak, and how high it may be.

    cap_w: the highest peak of all GPUs of one pipeline together; None for any. lasts_s: for how long power has to
        stay that high to count, see `PowerOverTime.peak_w`.

    Raises:
        RequestError: no power above 0, or no finite time.
    """

    cap_w: float | None = None
    lasts_s: float = 0.0

    def __post_init__(self) -> None:
        if self.cap_w is not None and not (math.isfinite(self.cap_w) and self.cap_w > 0):
            raise RequestError(f"--peak-power-cap-w needs a finite power above 0 W, not {self.cap_w:g}")
        if not (math.isfinite(self.lasts_s) and self.lasts_s >= 0):
            raise RequestError(f"--peak-lasts-s needs a finite time of at least 0 s, not {self.lasts_s:g}")

    def obeys(self, peak_w: float) -> bool:
        """Whether a peak keeps to the cap."""
        return self.cap_w is None or peak_w <= self.cap_w * (1 + _ROUNDING)
