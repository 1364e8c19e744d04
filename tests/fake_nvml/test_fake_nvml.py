"""What the tests that stand on the fake driver rely on: its power, energy, clocks and faults are as it says."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pynvml
import pytest

SM = pynvml.NVML_CLOCK_SM
LOCK = """
import os, signal, pynvml
pynvml.nvmlInit()
pynvml.nvmlDeviceSetGpuLockedClocks(pynvml.nvmlDeviceGetHandleByIndex(0), 1200, 1200)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def handle(fake_nvml: Any) -> Any:
    assert fake_nvml.open_count() == 0
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetHandleByIndex(0)


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a call gives, when it happened, and how uncertain that time is: as much as the machine is busy."""
    before_s = time.monotonic()
    answer = call()
    after_s = time.monotonic()
    return answer, (before_s + after_s) / 2, after_s - before_s


def energy_j(handle: Any) -> float:
    return pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3


def test_energy_is_the_integral_of_power_through_changes(fake_nvml: Any, handle: Any) -> None:
    """80 + 300 W at full load; 80 W without; 80 + 300/8 W at half the clock."""
    board = fake_nvml.boards[0]
    board.tick_s, board.idle_mhz = 0.0, 0

    def work_at_half_clock() -> None:
        board.load = 1.0
        pynvml.nvmlDeviceSetGpuLockedClocks(handle, 705, 705)

    start_j, start_s, doubt_s = timed(lambda: energy_j(handle))
    changes: tuple[tuple[Callable[[], object], float], ...] = (
        (lambda: setattr(board, "load", 0.0), 380.0),
        (work_at_half_clock, 80.0),
        (lambda: energy_j(handle), 117.5),
    )
    expected_j, last_s = 0.0, start_s
    for change, power_w in changes:
        time.sleep(0.1)
        end_j, at_s, width_s = timed(change)
        expected_j += power_w * (at_s - last_s)
        last_s = at_s
        doubt_s += width_s
    assert end_j - start_j == pytest.approx(expected_j, abs=380 * doubt_s + 0.01)


def test_a_lagging_clock_changes_power_when_it_arrives(fake_nvml: Any, handle: Any) -> None:
    board = fake_nvml.boards[0]
    board.tick_s, board.clock_lag_s = 0.0, 0.1
    start_j, start_s, doubt_s = timed(lambda: energy_j(handle))
    _, set_s, width_s = timed(lambda: pynvml.nvmlDeviceSetGpuLockedClocks(handle, 705, 705))
    time.sleep(0.2)
    end_j, end_s, last_s = timed(lambda: energy_j(handle))
    assert pynvml.nvmlDeviceGetClockInfo(handle, SM) == 705
    expected_j = 380 * (set_s + 0.1 - start_s) + 117.5 * (end_s - set_s - 0.1)
    assert end_j - start_j == pytest.approx(expected_j, abs=380 * (doubt_s + width_s + last_s) + 0.01)


def test_the_counter_moves_in_ticks(fake_nvml: Any, handle: Any) -> None:
    fake_nvml.boards[0].tick_s = 0.05
    readings = set()
    start_s = time.monotonic()
    while time.monotonic() - start_s < 0.2:
        readings.add(energy_j(handle))
    spent_s = time.monotonic() - start_s
    assert len(readings) <= spent_s / 0.05 + 2
    steps = [
        (b - a) / (380 * 0.05) for a, b in pairwise(sorted(readings)[1:])
    ]  # the first stood at a finer tick
    assert steps == pytest.approx([round(step) for step in steps], abs=1e-3)


def test_average_power_remembers_a_second(fake_nvml: Any, handle: Any) -> None:
    board = fake_nvml.boards[0]
    board.usage_is_average, board.idle_mhz = 1, 0
    _, idle_from_s, doubt_s = timed(lambda: setattr(board, "load", 0.0))
    time.sleep(0.25)
    average_mw, at_s, width_s = timed(lambda: pynvml.nvmlDeviceGetPowerUsage(handle))
    window_s = min(at_s - board.changes[0].at_s, 1.0)  # since the board was made, if that is less
    idle_s = min(at_s - idle_from_s, window_s)
    expected_w = (380 * (window_s - idle_s) + 80 * idle_s) / window_s
    assert average_mw / 1e3 == pytest.approx(expected_w, abs=300 * (doubt_s + width_s) / window_s + 0.01)


def test_a_lock_survives_the_kill_of_its_process(fake_nvml: Any, handle: Any) -> None:
    done = subprocess.run([sys.executable, "-c", LOCK], env=fake_nvml.env, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert pynvml.nvmlDeviceGetClockInfo(handle, SM) == 1200
    (call,) = fake_nvml.calls()
    assert (call.call, call.arguments, call.code) == ("set_locked_clocks", (1200, 1200), 0)
    assert call.uuid == fake_nvml.boards[0].uuid
    assert call.pid != os.getpid()
    assert call.time_s <= time.monotonic()


def test_a_forked_child_has_to_open_again(handle: Any) -> None:
    child = os.fork()
    if child == 0:
        try:
            pynvml.nvmlDeviceGetClockInfo(handle, SM)
        except pynvml.NVMLError_Uninitialized:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_fault_comes_after_some_calls_and_goes_after_others(fake_nvml: Any, handle: Any) -> None:
    fake_nvml.boards[0].fault("clock", value=7, after=1, calls=2)
    clocks = [pynvml.nvmlDeviceGetClockInfo(handle, SM) for _ in range(4)]
    assert clocks == [1410, 7, 7, 1410]


def test_a_refused_set_is_logged_with_its_code(fake_nvml: Any, handle: Any) -> None:
    fake_nvml.boards[0].fault("set_locked", code=pynvml.NVML_ERROR_NO_PERMISSION)
    with pytest.raises(pynvml.NVMLError_NoPermission):
        pynvml.nvmlDeviceSetGpuLockedClocks(handle, 1200, 1200)
    assert [call.code for call in fake_nvml.calls()] == [pynvml.NVML_ERROR_NO_PERMISSION]
    assert fake_nvml.boards[0].lock_mhz is None


def test_a_range_lets_the_clock_follow_the_load(fake_nvml: Any, handle: Any) -> None:
    board = fake_nvml.boards[0]
    pynvml.nvmlDeviceSetGpuLockedClocks(handle, 300, 1203)
    assert pynvml.nvmlDeviceGetClockInfo(handle, SM) == 1200
    board.load = 0.0
    assert pynvml.nvmlDeviceGetClockInfo(handle, SM) == 300
    assert pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle) == pynvml.nvmlClocksEventReasonGpuIdle
