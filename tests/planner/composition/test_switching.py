"""What a clock change between partitions is taken to cost."""

import math

import pytest

from energyopt.planner.composition.switching import SwitchCost, refuse_uncounted, switch_cost
from energyopt.schemas.errors import RequestError
from energyopt.schemas.profile_metadata import DeviceKind, ProfileMetadata


def _metadata(latency_s: float | None = None) -> ProfileMetadata:
    return ProfileMetadata(
        device_name="GPU",
        device_kind=DeviceKind.SIMULATED,
        wait_power_w=80.0,
        clock_switch_latency_s=latency_s,
    )


@pytest.mark.parametrize(
    ("latency_s", "time_s", "energy_j", "expected"),
    [
        (0.015, None, None, (0.015, 1.2)),  # 80 W for 15 ms
        (0.015, 0.001, None, (0.001, 0.08)),
        (None, 0.001, 0.5, (0.001, 0.5)),
        (None, 0.0, None, (0.0, 0.0)),
    ],
)
def test_it_is_the_profiles_latency_at_wait_power_where_nothing_else_is_said(
    latency_s: float | None, time_s: float | None, energy_j: float | None, expected: tuple[float, float]
) -> None:
    cost = switch_cost(_metadata(latency_s), time_s, energy_j)
    assert (cost.time_s, cost.energy_j) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("time_s", "energy_j", "problem"),
    [
        (None, None, "which the profile does not say; give --switch-time-s"),
        (-0.1, None, "--switch-time-s needs a finite time of at least 0 s, not -0.1"),
        (math.inf, None, "--switch-time-s needs a finite time"),
        (math.nan, None, "--switch-time-s needs a finite time"),
        (0.1, 7.9, r"--switch-energy-j needs at least the 8 J that waiting for 0\.1 s costs, not 7\.9"),
        (0.1, math.inf, "--switch-energy-j needs"),
    ],
)
def test_what_cannot_be_is_refused(time_s: float | None, energy_j: float | None, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        switch_cost(_metadata(), time_s, energy_j)


def test_changes_inside_operations_go_with_no_limit_on_their_number() -> None:
    cost = SwitchCost(time_s=0.1, energy_j=8.0)
    refuse_uncounted(None, limited=True)
    refuse_uncounted(cost, limited=False)
    with pytest.raises(RequestError, match="--max-switches and --switch-tradeoff do not count"):
        refuse_uncounted(cost, limited=True)
