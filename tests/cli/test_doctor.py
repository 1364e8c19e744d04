"""The command over the fake driver; what it finds is tested under tests/profiler/doctor."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.devices.interface import ClockKnob, FoundClocks
from energyopt.applier.guard.journal import Journal, boot_id, host_name, journal_path, write_journal
from energyopt.applier.guard.locks import take_lock
from energyopt.applier.guard.owner import Owner
from energyopt.cli.doctor import doctor
from energyopt.profiler.doctor import software
from energyopt.profiler.doctor.records import Fact
from energyopt.schemas.errors import DeviceError, RequestError

Make = Callable[..., Any]


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    monkeypatch.setenv("ENERGYOPT_STATE_DIR", str(folder))
    monkeypatch.setattr(software, "torch_fact", lambda _: Fact(name="torch", found="2.9.0"))
    return folder


@pytest.fixture
def leave(state: Path) -> Make:
    """A journal of a killed run, about a board without a lock of the site's."""

    def write(uuid: str) -> Path:
        owner = Owner(
            pid=2**22 + 1, start_ticks=1, pid_namespace=None, command="energyopt profile", since="2025-01-02"
        )
        journal = Journal(
            uuid=uuid,
            device_name="A100",
            host=host_name(),
            boot_id=boot_id(),
            owner=owner,
            found=FoundClocks(knob=ClockKnob.LOCKED_CLOCKS),
        )
        path = journal_path(state, uuid)
        write_journal(path, journal)
        return path

    return write


def test_tables_tell_what_there_is(make_fake_nvml: Make, capfd: pytest.CaptureFixture[str]) -> None:
    fake = make_fake_nvml(2)
    fake.boards[1].name = "NVIDIA\x1b[31m A100"
    assert doctor() == 0
    out, err = capfd.readouterr()
    assert "\n2 GPUs\n" in "\n" + out
    assert fake.boards[0].uuid in out
    assert "210 to 1410 (81)" in out
    assert "ticks every" in out
    assert "\x1b" not in out
    assert err == ""


def test_json(make_fake_nvml: Make, capfd: pytest.CaptureFixture[str], leave: Make) -> None:
    fake = make_fake_nvml(1)
    leave(fake.boards[0].uuid)
    assert doctor(as_json=True) == 0
    value = json.loads(capfd.readouterr().out)
    assert value["gpus"][0]["uuid"] == fake.boards[0].uuid
    assert value["gpus"][0]["sm_clocks_mhz"] == list(range(1410, 209, -15))
    assert value["journals"][0]["standing"] == "stale"
    assert {one["subject"] for one in value["lacks"]} >= {fake.boards[0].uuid}


def test_without_a_gpu_it_says_what_still_works(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def none() -> None:
        raise DeviceError("no NVIDIA driver on this machine")

    monkeypatch.setattr("energyopt.applier.devices.nvml.list_devices", none)
    assert doctor() == 0
    out, err = capfd.readouterr()
    assert "GPU: no NVIDIA driver on this machine\n  -> " in out
    assert "planning and --device sim:NAME work without one" in err


def test_a_simulated_gpu(capfd: pytest.CaptureFixture[str]) -> None:
    assert doctor(device="sim:a40") == 0
    assert "SIM-a40" in capfd.readouterr().out
    with pytest.raises(DeviceError, match="a40"):
        doctor(device="sim:a41")


@pytest.mark.parametrize("device", ["auto", "0", "UUID"])
def test_restore(make_fake_nvml: Make, leave: Make, capfd: pytest.CaptureFixture[str], device: str) -> None:
    fake = make_fake_nvml(1)
    board = fake.boards[0]
    board.lock_low_mhz = board.lock_high_mhz = 900
    path = leave(board.uuid)
    assert doctor(device=board.uuid if device == "UUID" else device, restore=True) == 0
    assert f"{board.uuid}: restored" in capfd.readouterr().out
    assert board.lock_mhz is None
    assert not path.exists()


def test_a_failed_restore_ends_with_1(
    make_fake_nvml: Make, fake_boards: Any, leave: Make, capfd: pytest.CaptureFixture[str]
) -> None:
    fake = make_fake_nvml(2)
    paths = [leave(board.uuid) for board in fake.boards]
    fake.boards[0].fault("reset_locked", code=fake_boards.NO_PERMISSION)
    assert doctor(restore=True, as_json=True) == 1
    found = json.loads(capfd.readouterr().out)["journals"]
    assert [one["standing"] for one in found] == ["failed", "restored"]
    assert [path.exists() for path in paths] == [True, False]


def test_a_board_in_use_ends_with_2_and_is_left_alone(
    make_fake_nvml: Make, leave: Make, capfd: pytest.CaptureFixture[str]
) -> None:
    from energyopt.applier.guard import forks

    fake = make_fake_nvml(1)
    path = leave(fake.boards[0].uuid)
    lock = take_lock(path, fake.boards[0].uuid)
    assert doctor(restore=True) == 2
    forks.close(lock)
    assert "in_use\n  -> held by process" in capfd.readouterr().out
    assert path.exists()
    assert not fake.calls()


def test_nothing_to_restore(capfd: pytest.CaptureFixture[str]) -> None:
    assert doctor(restore=True) == 0
    assert "clocks left behind\nnothing" in capfd.readouterr().out
    with pytest.raises(RequestError, match="name a real GPU"):
        doctor(device="sim:a40", restore=True)
