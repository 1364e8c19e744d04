"""Real boards through the fake driver, and a simulated one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.profiler.doctor import report
from energyopt.profiler.doctor.records import CounterHealth
from energyopt.schemas.errors import DeviceError


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(report, "software_facts", tuple)
    monkeypatch.setenv("ENERGYOPT_STATE_DIR", str(tmp_path / "state"))


def test_every_board_is_looked_at_and_a_sick_one_hides_none(
    make_fake_nvml: Callable[..., Any], fake_boards: Any
) -> None:
    fake = make_fake_nvml(3)
    fake.boards[1].fault("everything", code=fake_boards.GPU_IS_LOST)
    fake.boards[2].fault("energy", code=fake_boards.NOT_SUPPORTED)
    found = report.examine()
    assert [board.identity.uuid for board in found.boards] == [fake.boards[0].uuid, fake.boards[2].uuid]
    assert len(found.sick) == 1
    counter = found.boards[0].counter
    assert isinstance(counter, CounterHealth)
    assert counter.tick_s is not None
    assert 0.5 * fake.boards[0].tick_s < counter.tick_s < 0.3  # a busy machine looks less often
    assert counter.counter_w == pytest.approx(fake.boards[0].power_w(1410), rel=0.3)
    assert not isinstance(found.boards[1].counter, CounterHealth)
    assert fake.open_count() == 0, "all are closed"
    assert not fake.calls(), "nothing is set"


def test_a_board_that_is_lost_while_it_is_looked_at(
    make_fake_nvml: Callable[..., Any], fake_boards: Any
) -> None:
    fake = make_fake_nvml(1)
    fake.boards[0].fault("energy", code=fake_boards.GPU_IS_LOST, after=3)
    found = report.examine()
    assert (found.boards, len(found.sick)) == ((), 1)
    assert fake.boards[0].uuid in found.sick[0].subject


def test_one_board_by_number_and_none_of_that_name(make_fake_nvml: Callable[..., Any]) -> None:
    fake = make_fake_nvml(2)
    assert [board.identity.uuid for board in report.examine("1").boards] == [fake.boards[1].uuid]
    with pytest.raises(DeviceError):
        report.examine("GPU-none")


def test_a_simulated_board_in_its_own_time() -> None:
    (board,) = report.examine("sim:a100-sxm4-80gb").boards
    assert board.identity.kind == "simulated"
    assert isinstance(board.counter, CounterHealth)
    assert board.counter.disagreement == pytest.approx(0, abs=0.1)


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise DeviceError("no NVIDIA driver on this machine")

    monkeypatch.setattr("energyopt.applier.devices.nvml.list_devices", none)
    found = report.examine()
    assert found.boards == ()
    assert found.sick[0].problem == "no NVIDIA driver on this machine"
    assert "sim:" in found.sick[0].remedy
