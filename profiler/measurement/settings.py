"""What a user can choose of a measurement, and the times that follow from the board."""

from dataclasses import dataclass, field
from enum import StrEnum

from energyopt.schemas.errors import RequestError

TICKS_PER_WINDOW = 10
"""The default: five windows of ten ticks each, fifty in all, with both ends of each window on a tick's edge."""

LEAST_TICKS = 5
SHORTEST_WINDOW_S = 0.05


class SourceChoice(StrEnum):
    """Which energy reading to use for the whole profile."""

    AUTO = "auto"
    COUNTER = "counter"
    POWER = "power"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A user's choices; None leaves the choice to the rules of `timing_for`.

    clocks_mhz: clocks to measure at, highest first; empty for the clock as it is, which nothing then sets.
    windows: how many windows stand behind each row, spread over as many rounds through all clocks.
    soak_s: longest time to warm the board before the first window.
    search: choose which configurations of partitions to measure, instead of measuring all of them.
    search_points: how many points (configurations at a clock) that may be, over all partitions.
    """

    clocks_mhz: tuple[int, ...]
    windows: int = 5
    window_s: float | None = None
    warm_up_s: float | None = None
    cool_down_s: float = 0.0
    soak_s: float = 60.0
    budget_s: float | None = None
    early_stop: bool = True
    source: SourceChoice = SourceChoice.AUTO
    seed: int = 0
    search: bool = False
    search_points: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long things are done, s.

    tick_s: time between two advances of the energy reading.
    fine_s: how often the board is looked at near a window's ends, where the edge of a tick is sought.
    """

    tick_s: float
    window_s: float
    warm_up_s: float
    cool_down_s: float = 0.0
    fine_s: float = field(default=1e-3)


def timing_for(settings: Settings, tick_s: float, averaging_s: float) -> Timing:
    """Windows from the tick, warm-up from what the power reading averages over; flags override both.

    Raises:
        RequestError: the window asked for is too short to hold `LEAST_TICKS` ticks.
    """
    shortest_s = LEAST_TICKS * tick_s
    if settings.window_s is not None and settings.window_s < shortest_s:
        raise RequestError(
            f"a window of {settings.window_s:g} s is too short: this board's energy reading advances every "
            f"{tick_s:.3g} s and a window needs {LEAST_TICKS} ticks; "
            f"give at least --window-s {shortest_s:.3g}"
        )
    window_s = settings.window_s or max(TICKS_PER_WINDOW * tick_s, SHORTEST_WINDOW_S)
    warm_up_s = settings.warm_up_s
    if warm_up_s is None:
        warm_up_s = max(0.1, 2 * tick_s, 1.2 * averaging_s)
    return Timing(
        tick_s=tick_s,
        window_s=window_s,
        warm_up_s=warm_up_s,
        cool_down_s=settings.cool_down_s,
        fine_s=max(tick_s / 16, 5e-4),
    )
