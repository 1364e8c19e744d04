from dataclasses import asdict, replace
from typing import Any

import pytest

from energyopt.profiler.measurement.agreement import (
    AgreedError,
    SetAsideError,
    Step,
    Trial,
    agree_on_plan,
    agree_to_go_on,
    try_together,
)
from energyopt.profiler.measurement.calibration import Calibration
from energyopt.profiler.measurement.settings import Settings, Timing
from energyopt.profiler.measurement.team import Solo
from energyopt.schemas.errors import MeasurementError, WorkloadError
from energyopt.schemas.profile import EnergySource

CALIBRATION = Calibration(
    source=EnergySource.COUNTER,
    tick_s=0.1,
    averaging_s=0.0,
    power_w=400.0,
    counter_over_power=1.0,
    power_noise=0.01,
    noise_span_s=0.5,
    sm_clock_mhz=1410,
)
TRIAL = Trial(
    calibration=CALIBRATION, timing=Timing(tick_s=0.1, window_s=1.0, warm_up_s=0.2), run_s={"a": 0.01}
)


class Beside(Solo):
    """Rank 0 of several; the others' values are given."""

    def __init__(self, *others: Any) -> None:
        self._others = others

    def gather(self, value: Any) -> list[Any]:
        return [value, *self._others]


class Pair(Beside):
    """Rank 0 of two."""

    size = 2


def as_sent(trial: Trial) -> Any:
    """What another rank sends."""
    sent: list[Any] = []

    class Listening(Solo):
        def gather(self, value: Any) -> list[Any]:
            sent.append(value)
            return [value]

    agree_on_plan(Listening(), Settings(clocks_mhz=(1410,)), trial)
    return sent[0]


def test_all_ranks_take_the_coarsest_tick_the_longest_windows_and_the_noisiest_board() -> None:
    coarse = replace(
        TRIAL,
        timing=Timing(tick_s=0.2, window_s=2.0, warm_up_s=0.1, fine_s=2e-3),
        calibration=replace(CALIBRATION, power_noise=0.05),
    )
    settings = Settings(clocks_mhz=(1410, 900))
    alone = agree_on_plan(Solo(), settings, TRIAL)
    found = agree_on_plan(Beside(as_sent(coarse)), settings, TRIAL)
    assert found.timing == Timing(tick_s=0.2, window_s=2.0, warm_up_s=0.2, fine_s=2e-3)
    assert found.clocks_mhz == (1410, 900)
    assert found.duration_s > alone.duration_s
    assert found.window_error > alone.window_error
    assert agree_on_plan(Beside(as_sent(TRIAL)), settings, coarse) == found


def test_a_rank_that_cannot_measure_takes_over_the_plan_of_the_others() -> None:
    settings = Settings(clocks_mhz=(1410,))
    assert agree_on_plan(Beside(as_sent(TRIAL)), settings, None) == agree_on_plan(Solo(), settings, TRIAL)


def test_without_any_board_there_is_no_plan() -> None:
    with pytest.raises(MeasurementError, match="no rank has a board that can be measured"):
        agree_on_plan(Beside(None), Settings(clocks_mhz=(1410,)), None)


def test_clocks_as_they_are_are_those_of_the_slowest_board() -> None:
    slow = replace(TRIAL, calibration=replace(CALIBRATION, sm_clock_mhz=1305))
    assert agree_on_plan(Beside(as_sent(slow)), Settings(clocks_mhz=()), TRIAL).clocks_mhz == (1305,)


def test_a_clock_that_can_neither_be_set_nor_read_is_refused() -> None:
    blind = replace(TRIAL, calibration=replace(CALIBRATION, sm_clock_mhz=None))
    with pytest.raises(MeasurementError, match="can neither be set nor read"):
        agree_on_plan(Solo(), Settings(clocks_mhz=()), blind)


def test_where_no_rank_may_go_on_without_the_others_nothing_is_advised() -> None:
    with pytest.raises(AgreedError, match=r"rank 1: disk full; all ranks stop and nothing is left set$"):
        agree_to_go_on(Beside([True, "disk full"]), None, allow_partial=None)


def _fail() -> int:
    raise WorkloadError("out of memory")


def test_what_fails_on_one_rank_is_heard_on_all() -> None:
    fine, broken = [True, None], [True, "no counter"]
    assert try_together(Pair(fine), Step.RESTING, lambda: 7) == 7
    with pytest.raises(AgreedError, match="rank 1: no counter"):
        try_together(Pair(broken), Step.RESTING, lambda: 7)
    with pytest.raises(SetAsideError, match="out of memory") as raised:
        try_together(Pair(fine), Step.RESTING, _fail, allow_partial=True)
    assert raised.value.step is Step.RESTING


def test_other_failures_and_those_of_a_single_process_are_not_agreed_on() -> None:
    with pytest.raises(WorkloadError, match="out of memory"):
        try_together(Solo(), Step.RESTING, _fail, allow_partial=True)
    with pytest.raises(WorkloadError, match="out of memory"):
        try_together(Pair(), Step.RESTING, _fail, failures=MeasurementError)


def test_one_rank_with_a_problem_stops_all_unless_that_is_allowed() -> None:
    agree_to_go_on(Beside([True, None]), None)
    with pytest.raises(AgreedError, match=r"rank 1: no counter; all ranks stop .*--allow-partial"):
        agree_to_go_on(Beside([True, "no counter"]), None)
    agree_to_go_on(Beside([True, "no counter"]), None, allow_partial=True)
    with pytest.raises(AgreedError, match=r"rank 0: no rights \(and 1 more ranks\)"):
        agree_to_go_on(Beside([True, "no counter"]), "no rights", allow_partial=True)


def test_energies_that_could_not_be_joined_are_found_before_the_sweep() -> None:
    other = asdict(replace(TRIAL, calibration=replace(CALIBRATION, source=EnergySource.POWER_INTEGRAL)))
    with pytest.raises(AgreedError, match="give --energy-source power"):
        agree_on_plan(Beside(other), Settings(clocks_mhz=(1410,)), TRIAL)
