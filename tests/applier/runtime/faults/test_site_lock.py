"""A lock that the site had set, which NVML can take off and cannot read."""

from typing import Any

import pytest

LOCK = (210, 1200)


@pytest.fixture(autouse=True)
def locked(trainer: Any) -> None:
    trainer.board.lock_low_mhz, trainer.board.lock_high_mhz = LOCK


def test_a_board_that_may_be_locked_is_left_alone(trainer: Any, one_line: Any) -> None:
    """It runs below its highest clock under load, and nothing throttles it."""
    run = trainer.start(iterations=8, op_s=0.03)
    run.survived()
    one_line(run, "runs at 1200 MHz under load", "--site-lock-mhz", "its clocks are left alone")
    assert trainer.sets() == []
    assert trainer.board.lock_mhz == LOCK


def test_a_named_lock_is_put_back(trainer: Any) -> None:
    run = trainer.start(iterations=2, op_s=0.03, ENERGYOPT_SITE_LOCK_MHZ="210:1200")
    run.survived()
    assert run.said == []
    assert trainer.sets()[:3] == [1305, 900, 1200]
    assert trainer.board.lock_mhz == LOCK


def test_a_board_in_a_power_cap_is_no_locked_one(trainer: Any) -> None:
    trainer.board.throttle = 0x4  # SW_POWER_CAP
    run = trainer.start(iterations=2, op_s=0.03)
    run.survived()
    assert trainer.sets()[:3] == [1305, 900, 1200]


def test_nonsense_is_said_once(trainer: Any, one_line: Any) -> None:
    run = trainer.start(iterations=1, ENERGYOPT_SITE_LOCK_MHZ="1200")
    run.survived()
    one_line(run, "neither LOW:HIGH", "training goes on without a plan")
    assert trainer.sets() == []
