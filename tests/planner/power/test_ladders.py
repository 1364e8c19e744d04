"""Steps between options, on a hand-made front."""

from energyopt.planner.power.ladders import ladders
from energyopt.schemas.options import Option


def _option(time_s: float, power_w: float) -> Option:
    return Option(sm_clock_mhz=1000, time_s=time_s, energy_j=power_w * time_s)


def test_steps_by_hand() -> None:
    """Options 0, 2 and 3 beat all others in time or power; 1 is slower than 0 and draws more than 2."""
    front = [_option(1.0, 400.0), _option(2.5, 350.0), _option(2.0, 300.0), _option(3.0, 200.0)]
    found = ladders([[_option(1.0, 300.0)], front])
    assert found.begin.tolist() == [0, 1]
    assert found.time_s.tolist() == [1.0, 1.0, 2.5, 2.0, 3.0]
    assert found.power_w.tolist() == [300.0, 400.0, 350.0, 300.0, 200.0]
    assert found.down.tolist() == [-1, 3, 3, 4, -1]
    assert found.up.tolist() == [-1, -1, 3, 1, 3]


def test_options_of_equal_time_or_power() -> None:
    """The thriftiest of equally fast ones, and the fastest of equally thrifty ones, are steps."""
    found = ladders([[_option(1.0, 400.0), _option(1.0, 300.0), _option(2.0, 300.0)]])
    assert found.down.tolist() == [1, -1, -1]
    assert found.up.tolist() == [-1, -1, 1]
