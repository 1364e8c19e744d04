"""A lock that a site had set before: NVML cannot read one, so a board that behaves as if locked is asked about."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.devices.interface import (
    Absent,
    Capabilities,
    ClockKnob,
    FoundClocks,
    State,
    Throttle,
)
from energyopt.applier.devices.site_lock import EXPLAINED, WithSiteLock, parse_site_lock
from energyopt.profiler.benches.simulated import open_simulated_bench
from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.profiling import Voice, run_profile
from energyopt.profiler.request import Request
from energyopt.profiler.site_lock import refuse_unknown_lock
from energyopt.profiler.workloads.interface import Kernel
from energyopt.schemas.errors import ClockControlError, RequestError
from energyopt.schemas.profile import Profile

KERNEL = Kernel(name="mm", flops=1e12, memory_bytes=1e9, matrix=True)
LOOP = "import time\ndef step(): return [('forward', 'f', lambda: time.sleep(0.002))]\n"
SHORT = {
    "measurement.calibration.PILOT_S": 0.4,
    "measurement.resting.SHORTEST_S": 0.1,
    "measurement.resting.WARM_S": 0.05,
    "measurement.resting.SETTLE_S": 0.02,
    "measurement.latency.SWITCHES": 2,
    "measurement.latency.LOAD_S": 0.15,
    "site_lock.LOOK_S": 0.2,
}
ASKED = (
    r"^NVIDIA A100-SXM4-80GB runs at 1200 MHz under load, though it supports 1410 MHz and nothing throttles it: .*"
    r"--site-lock-mhz LOW:HIGH to have that lock put back, or --site-lock-mhz none where there is none"
)


@pytest.mark.parametrize(
    ("text", "lock"),
    [(None, None), ("none", None), ("210:1200", (210, 1200)), ("1200:1200", (1200, 1200)), ("0:1", (0, 1))],
)
def test_a_lock_in_words(text: str | None, lock: tuple[int, int] | None) -> None:
    assert parse_site_lock(text) == lock


@pytest.mark.parametrize("text", ["", "1200", "1200:210", "210-1200", "a:b", "-1:5", "210:1200:3", "None"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(RequestError, match=rf"{text!r} is neither LOW:HIGH, such as 210:1200, nor none"):
        parse_site_lock(text)


@dataclass
class Board:
    """A simulated board that tells a clock and reasons of its own; anything else is the simulation's."""

    device: Any
    clock_mhz: int | Absent = 1200
    throttle: Throttle | Absent = field(default_factory=lambda: Throttle(0))
    knob: ClockKnob | None = ClockKnob.LOCKED_CLOCKS
    supported: tuple[int, ...] = (1410, 1200)
    sets: list[int] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.device.capabilities, knob=self.knob)

    def supported_sm_clocks_mhz(self) -> tuple[int, ...]:
        return self.supported

    def state(self) -> State:
        return State(sm_clock_mhz=self.clock_mhz, temperature_c=50.0, throttle=self.throttle)

    def lock_sm_clock(self, sm_clock_mhz: int) -> None:
        self.sets.append(sm_clock_mhz)


@pytest.fixture
def look() -> Callable[..., Board]:
    """`look(clock_mhz=1200)`: look for a lock on such a board; raises where one is suspected."""

    def make(**answers: Any) -> Board:
        bench = open_simulated_bench("a100-sxm4-80gb")
        board = Board(bench.device, **answers)
        bench._device = board  # type: ignore[assignment]
        refuse_unknown_lock(bench, KERNEL)
        return board

    return make


@pytest.mark.parametrize("throttle", [Throttle(0), Throttle.APPLICATIONS_CLOCKS, Absent("not supported")])
def test_a_board_below_its_highest_clock_without_a_reason_may_be_locked(
    throttle: Any, look: Callable[..., Board]
) -> None:
    with pytest.raises(ClockControlError, match="runs at 1200 MHz under load, though it supports 1410 MHz"):
        look(throttle=throttle)


@pytest.mark.parametrize("reason", list(EXPLAINED), ids=lambda one: one.name)
def test_a_clock_that_something_else_explains_is_no_lock(
    reason: Throttle, look: Callable[..., Board]
) -> None:
    """A power cap, heat, a brake; or a board that is idle because kernels run on the CPU."""
    assert look(throttle=reason).sets == []


def test_what_explains_a_lower_clock() -> None:
    assert {Throttle.SW_POWER_CAP, Throttle.GPU_IDLE, Throttle.SW_THERMAL, Throttle.HW_SLOWDOWN} <= set(
        EXPLAINED
    )
    assert not EXPLAINED & Throttle.APPLICATIONS_CLOCKS


@pytest.mark.parametrize(
    "answers",
    [
        {"clock_mhz": 1410},
        {"clock_mhz": 1380},
        {"clock_mhz": Absent("not supported")},
        {"knob": ClockKnob.APPLICATION_CLOCKS},
        {"knob": None},
        {"supported": ()},
    ],
    ids="-".join,
)
def test_boards_about_which_nothing_is_asked(answers: dict[str, Any], look: Callable[..., Board]) -> None:
    """At its clock, or two steps below it as boards are when hot; or where a lock is not known or not used."""
    assert look(**answers).sets == []


def test_the_lock_that_a_user_names_is_what_was_found() -> None:
    device = open_simulated_bench("a100-sxm4-80gb").device
    board = WithSiteLock(device, (210, 1200))
    assert board.find_clocks() == FoundClocks(knob=ClockKnob.LOCKED_CLOCKS, locked_mhz=(210, 1200))
    board.lock_sm_clock(1005)
    assert device.find_clocks().locked_mhz == (1005, 1005)
    board.restore_clocks(board.find_clocks())
    assert device.find_clocks().locked_mhz == (1200, 1200)  # a simulated board has one clock, and no range
    assert (board.identity, board.capabilities) == (device.identity, device.capabilities)
    assert board.supported_sm_clocks_mhz() == device.supported_sm_clocks_mhz()
    assert (board.state(), board.energy_j()) == (device.state(), device.energy_j())
    assert board.power_w() == pytest.approx(device.power_w(), rel=0.05)


def test_application_clocks_have_no_lock_to_name() -> None:
    class Applications:
        def find_clocks(self) -> FoundClocks:
            return FoundClocks(knob=ClockKnob.APPLICATION_CLOCKS)

    with pytest.raises(ClockControlError, match="this board's clocks are application clocks"):
        WithSiteLock(Applications(), (210, 1200)).find_clocks()  # type: ignore[arg-type]


@pytest.fixture
def fake(fake_nvml: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A board of the fake driver, that a guard process finds too; what comes before the sweep is kept short."""
    monkeypatch.setenv("LD_LIBRARY_PATH", fake_nvml.env["LD_LIBRARY_PATH"])
    monkeypatch.setenv("ENERGYOPT_STATE_DIR", str(tmp_path / "state"))
    for name, value in SHORT.items():
        monkeypatch.setattr(f"energyopt.profiler.{name}", value)
    fake_nvml.boards[0].tick_s = 0.01
    return fake_nvml


@pytest.fixture
def profile(fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], Profile]:
    """`profile(site_lock)`: a loop of the user's at two clocks, on the fake board."""
    del fake
    (tmp_path / "own_site_loop.py").write_text(LOOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "own_site_loop", raising=False)
    settings = Settings(clocks_mhz=(), windows=2, window_s=0.1, warm_up_s=0.02, soak_s=0.0)

    def run(site_lock: str | None) -> Profile:
        request = Request(
            workload="own_site_loop:step",
            output=tmp_path / "p.parquet",
            kernels_on="cpu",
            clocks="1410,1005",
            settings=settings,
            site_lock=site_lock,
        )
        found = run_profile(request, Voice(progress=lambda *_: None, say=lambda _: None, warn=lambda _: None))
        assert found is not None
        return found

    return run


def lock(board: Any, low_mhz: int, high_mhz: int) -> None:
    """As a site's script would have, when the machine came up."""
    board.lock_low_mhz, board.lock_high_mhz = low_mhz, high_mhz


def test_a_locked_board_is_refused_and_stays_as_it_is(
    fake: Any, profile: Callable[[str | None], Profile], tmp_path: Path
) -> None:
    board = fake.boards[0]
    lock(board, 210, 1200)
    with pytest.raises(ClockControlError, match=ASKED) as caught:
        profile(None)
    assert "\n" not in str(caught.value)
    assert fake.calls() == []
    assert board.lock_mhz == (210, 1200)
    assert list(tmp_path.glob("p.parquet*")) == []
    assert list((tmp_path / "state").glob("*.json")) == []


def test_a_lock_that_is_named_is_put_back(fake: Any, profile: Callable[[str | None], Profile]) -> None:
    board = fake.boards[0]
    lock(board, 210, 1200)
    found = profile("210:1200")
    assert {(row.sm_clock_mhz, row.achieved_sm_clock_mhz, row.invalid) for row in found.rows} == {
        (1410, 1410, None),
        (1005, 1005, None),
    }
    calls = [(call.call, call.arguments, call.code) for call in fake.calls()]
    assert {one[1] for one in calls[:-1]} == {(1410, 1410), (1005, 1005)}
    assert calls[-1] == ("set_locked_clocks", (210, 1200), 0)
    assert board.lock_mhz == (210, 1200)


def test_a_user_who_says_that_there_is_none_is_believed(
    fake: Any, profile: Callable[[str | None], Profile]
) -> None:
    board = fake.boards[0]
    lock(board, 210, 1200)
    profile("none")
    assert fake.calls()[-1].call == "reset_locked_clocks"
    assert board.lock_mhz is None


def test_an_idle_board_is_not_taken_for_a_locked_one(
    fake: Any, profile: Callable[[str | None], Profile]
) -> None:
    """It is at its lowest clock, for the kernels of this run are on the CPU."""
    fake.boards[0].load = 0.0
    assert {row.sm_clock_mhz for row in profile(None).rows} == {1410, 1005}


def test_a_power_cap_is_not_taken_for_a_lock(fake: Any, profile: Callable[[str | None], Profile]) -> None:
    board = fake.boards[0]
    board.ceiling_mhz, board.throttle = 1200, int(Throttle.SW_POWER_CAP)
    achieved = {(row.sm_clock_mhz, row.achieved_sm_clock_mhz, row.invalid) for row in profile(None).rows}
    assert achieved == {(1410, 1200, None), (1005, 1005, None)}
    assert board.lock_mhz is None
