"""Boards of the fake driver, a state folder, and real processes that clock the boards and are killed."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.devices.interface import (
    Capabilities,
    ClockKnob,
    FoundClocks,
    Identity,
)
from energyopt.applier.guard.journal import Journal, boot_id, host_name
from energyopt.applier.guard.owner import Owner
from energyopt.schemas.errors import ClockControlError

HOLDER = """
import sys, time
from energyopt.applier.devices.nvml import open_nvml
from energyopt.applier.guard.hold import guarded_clocks

with guarded_clocks(*map(open_nvml, sys.argv[1:])) as clocks:
    clocks.lock(1200)
    print(clocks.guard_pid, flush=True)
    {then}
"""
"""A program that clocks the boards that it is given down to 1200 MHz, says who guards it, and then does as told."""


class ToyDevice:
    """A board that lives in this process and writes down what is done to it."""

    def __init__(self, uuid: str = "SIM-toy", refuses: bool = False, unable: str | None = None) -> None:
        self.identity = Identity(name="toy", uuid=uuid, kind="simulated")
        working = dict.fromkeys(
            ("energy_counter", "power", "sm_clock", "throttle_reasons", "temperature", "supported_clocks")
        )
        self.capabilities = Capabilities(
            **working, set_clocks=unable, knob=ClockKnob.LOCKED_CLOCKS, remedies={"set_clocks": "ask root"}
        )
        self.refuses = refuses
        self.locked: tuple[int, int] | None = None
        self.done: list[object] = []

    def find_clocks(self) -> FoundClocks:
        return FoundClocks(knob=ClockKnob.LOCKED_CLOCKS, locked_mhz=self.locked)

    def lock_sm_clock(self, sm_clock_mhz: int) -> None:
        if self.refuses:
            raise ClockControlError(f"{self.identity.uuid}: no permission")
        self.done.append(sm_clock_mhz)
        self.locked = (sm_clock_mhz, sm_clock_mhz)

    def restore_clocks(self, found: FoundClocks) -> None:
        if self.refuses:
            raise ClockControlError(f"{self.identity.uuid}: no permission")
        self.done.append("restore")
        self.locked = found.locked_mhz


@pytest.fixture
def toy() -> type[ToyDevice]:
    """The class of toy boards."""
    return ToyDevice


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This test's state folder; nothing is in it, it is not even there."""
    folder = tmp_path / "state"
    monkeypatch.setenv("ENERGYOPT_STATE_DIR", str(folder))
    return folder


@pytest.fixture
def make_boards(
    make_fake_nvml: Callable[..., Any], state: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """A fake driver that guard processes find too."""

    def make(count: int = 1, *lacking: str) -> Any:
        fake = make_fake_nvml(count, *lacking)
        monkeypatch.setenv("LD_LIBRARY_PATH", fake.env["LD_LIBRARY_PATH"])
        assert not state.exists()
        return fake

    return make


@pytest.fixture
def hold_in_child() -> Iterator[Callable[..., tuple["subprocess.Popen[str]", int]]]:
    """`hold_in_child(fake, "time.sleep(600)")`: a process that has clocked all boards, and its guard's number."""
    started: list[subprocess.Popen[str]] = []

    def start(fake: Any, then: str = "time.sleep(600)") -> tuple["subprocess.Popen[str]", int]:
        uuids = [board.uuid for board in fake.boards]
        command = [sys.executable, "-c", HOLDER.format(then=then), *uuids]
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=fake.env
        )
        started.append(child)
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line, child.communicate()[1]
        return child, int(line)

    yield start
    for child in started:
        child.kill()
        child.communicate()


@pytest.fixture
def make_journal() -> Callable[..., Journal]:
    """A journal of a process that has ended, about a board that stood without a lock."""

    def make(uuid: str = "GPU-1", **changes: Any) -> Journal:
        owner = Owner(
            pid=2**22 + 1,  # above the highest number that Linux gives
            start_ticks=5,
            pid_namespace=None,
            command="energyopt profile",
            since="2025-01-02T03:04:05+00:00",
        )
        values = {
            "uuid": uuid,
            "device_name": "NVIDIA A100-SXM4-80GB",
            "host": host_name(),
            "boot_id": boot_id(),
            "owner": owner,
            "found": FoundClocks(knob=ClockKnob.LOCKED_CLOCKS),
        }
        return Journal(**{**values, **changes})

    return make
