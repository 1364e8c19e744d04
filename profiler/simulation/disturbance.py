"""What keeps two measurements from being equal: power and speed that wander, and noise of the sensors.

All draws come from seeded generators of their own, so that looking at a board more often changes no physics.
"""

import math
import random

CELL_S = 0.1
"""Disturbances of the board are constant over cells of virtual time of this length."""

_FAST_S, _FAST = 0.3, 0.006  # correlation time and standard deviation, relative
_SLOW_S, _SLOW = 300.0, 0.003
_WHITE = 0.004
_RUN = 0.003
_SENSOR = 0.005


class Wander:
    """Factors on a board's power (by cell of time), on its speed (by run) and on power readings (by reading).

    Standard deviations of the power: 0.6 % with a correlation time of 0.3 s, 0.3 % over 5 minutes, 0.4 % white;
    of the speed and of readings: 0.3 % and 0.5 %. Of the order seen on real boards; not fitted.
    """

    def __init__(self, seed: int, noise: bool) -> None:
        self._noise = noise
        self._cells = random.Random(f"cells {seed}")
        self._runs = random.Random(f"runs {seed}")
        self._readings = random.Random(f"readings {seed}")
        self._latencies = random.Random(f"latencies {seed}")
        self._fast = self._slow = 0.0

    def next_cell(self) -> float:
        """Factor on the power in the next cell."""
        if not self._noise:
            return 1.0
        draw = self._cells.gauss
        self._fast = _step(self._fast, _FAST_S, _FAST, draw(0.0, 1.0))
        self._slow = _step(self._slow, _SLOW_S, _SLOW, draw(0.0, 1.0))
        return 1.0 + self._fast + self._slow + _WHITE * draw(0.0, 1.0)

    def next_run(self) -> float:
        """Factor on the speed of the next run."""
        return 1.0 + _RUN * self._runs.gauss(0.0, 1.0) if self._noise else 1.0

    def next_reading(self) -> float:
        """Factor on the next power reading."""
        return 1.0 + _SENSOR * self._readings.gauss(0.0, 1.0) if self._noise else 1.0

    def next_latency_s(self, between_s: tuple[float, float]) -> float:
        """How long the next change of the clock takes; the middle without noise."""
        return self._latencies.uniform(*between_s) if self._noise else sum(between_s) / 2


def _step(value: float, correlation_s: float, deviation: float, draw: float) -> float:
    """One step of a first-order autoregressive process with the given stationary deviation."""
    kept = math.exp(-CELL_S / correlation_s)
    return value * kept + deviation * math.sqrt(1 - kept * kept) * draw
