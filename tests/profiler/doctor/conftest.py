"""A board in a time of its own: power and counter follow from formulas."""

from collections.abc import Callable
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent, Capabilities, ClockKnob, Identity, State, Throttle
from energyopt.profiler.doctor.records import BoardReport, CounterHealth

WORKING: dict[str, Any] = dict.fromkeys(
    (
        "energy_counter",
        "power",
        "sm_clock",
        "throttle_reasons",
        "temperature",
        "supported_clocks",
        "set_clocks",
    )
)


class SteadyBoard:
    """Draws `watts`; its counter shows `scale` times that, as it stood at the last multiple of `tick_s`."""

    def __init__(self, watts: float = 200.0, tick_s: float = 0.1, scale: float = 1.0) -> None:
        self.watts, self.tick_s, self.scale = watts, tick_s, scale
        self.time_s = 0.0137

    def now_s(self) -> float:
        return self.time_s

    def sleep(self, duration_s: float) -> None:
        self.time_s += duration_s

    def energy_j(self) -> float | Absent:
        return 5000 + self.scale * self.watts * self.tick_s * (self.time_s // self.tick_s)

    def power_w(self) -> float | Absent:
        return self.watts


@pytest.fixture
def steady_board() -> type[SteadyBoard]:
    return SteadyBoard


@pytest.fixture
def make_board() -> Callable[..., BoardReport]:
    """What doctor found of a board; `set_clocks="..."` and the like are lacks."""

    def make(counter: CounterHealth | Absent, **lacking: Any) -> BoardReport:
        return BoardReport(
            identity=Identity(name="A100", uuid="GPU-1", kind="nvml"),
            capabilities=Capabilities(
                **{
                    **WORKING,
                    "knob": ClockKnob.LOCKED_CLOCKS,
                    "remedies": {"set_clocks": "ask root"},
                    **lacking,
                }
            ),
            state=State(sm_clock_mhz=1410, temperature_c=Absent("blind"), throttle=Throttle.SW_POWER_CAP),
            clocks_mhz=(1410, 210),
            counter=counter,
        )

    return make
