"""From a request to a profile in one process: on simulated GPUs, and in real time on boards of the fake driver."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from energyopt.applier.devices.nvml import open_nvml
from energyopt.applier.guard.locks import reserved
from energyopt.profiler import profiling, surroundings
from energyopt.profiler.measurement.partial import partial_path
from energyopt.profiler.measurement.settings import Settings, SourceChoice
from energyopt.profiler.profiling import Voice, run_profile
from energyopt.profiler.request import Request, ignored_settings
from energyopt.profiler.workloads.open import load_workload
from energyopt.schemas.errors import (
    ClockControlError,
    DeviceError,
    EnergyoptError,
    MeasurementError,
    RequestError,
    WorkloadError,
)
from energyopt.schemas.profile import Level, Profile, read_profile

TICK_S = 0.01
LOOP = """
import time

def step():
    return [("forward", "f", lambda: time.sleep(0.002)), ("backward", "b", lambda: time.sleep(0.004))]
"""
TINY = """
hidden_size = 64
num_hidden_layers = 1
num_attention_heads = 2
intermediate_size = 96
vocab_size = 128

[job]
sequence_length = 16
dtype = "float32"
"""
SHORT = {
    "calibration.PILOT_S": 0.4,
    "calibration.LONGEST_PILOT_S": 1.5,
    "resting.SHORTEST_S": 0.1,
    "resting.SETTLE_S": 0.05,
    "resting.WARM_S": 0.05,
    "latency.SWITCHES": 2,
}


class Listener:
    """A voice that remembers; `during` is called with each step's name and may raise."""

    def __init__(self, during: Callable[[str], None] = lambda _: None) -> None:
        self.said: list[str] = []
        self.warned: list[str] = []
        self.voice = Voice(
            progress=lambda step, _share: during(step), say=self.said.append, warn=self.warned.append
        )


def _settings(**changes: Any) -> Settings:
    return Settings(
        **{"clocks_mhz": (), "windows": 2, "window_s": 0.1, "warm_up_s": 0.02, "soak_s": 0.0} | changes
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with workloads of a user's own; nothing of them stays loaded."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "training_loop.py").write_text(LOOP)
    (work / "tiny.toml").write_text(TINY)
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "path", [str(work), *sys.path])
    monkeypatch.delitem(sys.modules, "training_loop", raising=False)
    monkeypatch.setenv("ENERGYOPT_STATE_DIR", str(tmp_path / "state"))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    return work


@pytest.fixture
def fake(make_fake_nvml: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One board that a guard process finds too; what comes before the sweep is kept short."""
    del folder
    made = make_fake_nvml()
    monkeypatch.setenv("LD_LIBRARY_PATH", made.env["LD_LIBRARY_PATH"])
    for name, value in SHORT.items():
        monkeypatch.setattr(f"energyopt.profiler.measurement.{name}", value)
    monkeypatch.setattr("energyopt.profiler.site_lock.LOOK_S", 0.1)
    made.boards[0].tick_s = TICK_S
    return made


@pytest.fixture
def ask(folder: Path) -> Callable[..., Request]:
    """A request for the loop at two clocks on the fake board, with changes."""

    def make(**changes: Any) -> Request:
        usual = {
            "workload": "training_loop:step",
            "output": folder / "p.parquet",
            "kernels_on": "cpu",
            "clocks": "1410,1200",
            "settings": _settings(),
        }
        return Request(**(usual | changes))

    return make


@pytest.fixture
def simulated(ask: Callable[..., Request]) -> Request:
    """Three clocks of a small model on a simulated A100."""
    return ask(
        workload="tiny.toml",
        device="sim:a100-sxm4-80gb",
        kernels_on="cuda",
        clocks="1410,1200,990",
        settings=Settings(clocks_mhz=(), windows=2, early_stop=False),
    )


def _run(request: Request, listener: Listener | None = None) -> Profile:
    found = run_profile(request, (listener or Listener()).voice)
    assert found is not None
    assert read_profile(request.output).sha256() == found.sha256()
    assert not partial_path(request.output).exists()
    return found


def _left(request: Request) -> list[str]:
    return sorted(path.name for path in request.output.parent.glob("p.parquet*"))


def _powers_w(profile: Profile, clock: int) -> list[float]:
    return [row.energy_j / row.time_s for row in profile.rows if row.sm_clock_mhz == clock]


def _ops(profile: Profile) -> set[tuple[str, int]]:
    return {(row.op, row.sm_clock_mhz) for row in profile.rows if row.level is Level.OP}


def test_torch_kernels_in_real_time(fake: Any, ask: Callable[..., Request]) -> None:
    """Energies follow from the board's formula; what is set is written down by the driver itself."""
    board = fake.boards[0]
    board.tick_s = 0.005
    profile = _run(ask(workload="tiny.toml", settings=_settings(window_s=0.03)))
    assert _ops(profile) == {(op, clock) for op in ("forward", "backward") for clock in (1410, 1200)}
    for clock in (1410, 1200):
        assert median(_powers_w(profile, clock)) == pytest.approx(board.power_w(clock), rel=0.04)
    assert all(row.invalid is None and row.achieved_sm_clock_mhz == row.sm_clock_mhz for row in profile.rows)
    meta = profile.metadata
    assert (meta.device_name, meta.device_uuid) == (f"{board.name} (kernels on the CPU)", board.uuid)
    assert meta.wait_power_w == pytest.approx(board.power_w(1410), rel=0.04)
    assert meta.measurement["tick_s"] == pytest.approx(0.005, rel=0.2)
    assert meta.measurement["energy_source"] == "counter"
    calls = fake.calls()
    assert {call.arguments for call in calls[:-1]} == {(1410, 1410), (1200, 1200)}
    assert (calls[-1].call, board.lock_mhz) == ("reset_locked_clocks", None)


def test_the_clock_as_it_is_needs_no_right_and_sets_nothing(
    fake: Any, fake_boards: Any, ask: Callable[..., Request]
) -> None:
    """After a refusal the same output can be tried as the refusal says: nothing of the first try is in the way."""
    fake.boards[0].fault("set_locked", code=fake_boards.NO_PERMISSION)
    with pytest.raises(ClockControlError, match=r"root or CAP_SYS_ADMIN.*sudo.*--clocks current") as caught:
        _run(ask())
    assert "\n" not in str(caught.value)
    assert _left(ask()) == []
    assert fake.boards[0].lock_mhz is None
    refused = len(fake.calls())
    profile = _run(ask(clocks="current"))
    assert len(fake.calls()) == refused
    assert _ops(profile) == {("forward", 1410), ("backward", 1410)}
    assert profile.metadata.measurement["clocks_set"] == "no: as the board was found"
    assert profile.metadata.clock_switch_latency_s is None


@pytest.mark.parametrize("clocks", ["current", "1410,1200"])
def test_one_run_at_a_time_measures_a_board(fake: Any, ask: Callable[..., Request], clocks: str) -> None:
    """Each of two would count what the other uses, whether it sets clocks or not."""
    with (
        reserved(open_nvml(fake.boards[0].uuid)),
        pytest.raises(DeviceError, match=rf"{fake.boards[0].uuid} is in use by process {os.getpid()} "),
    ):
        _run(ask(clocks=clocks))
    assert _left(ask()) == []
    assert fake.calls() == []


@pytest.mark.parametrize(("others", "words"), [(1, "1 other process has"), (3, "3 other processes have")])
def test_others_on_the_board_are_warned_about(
    fake: Any, ask: Callable[..., Request], others: int, words: str
) -> None:
    fake.boards[0].others = others
    listener = Listener()
    fake.boards[0].fault("set_locked", code=4)
    with pytest.raises(ClockControlError):
        _run(ask(), listener)
    (warning,) = listener.warned
    assert warning.startswith(f"{words} work on {fake.boards[0].name} ({fake.boards[0].uuid}): ")


def test_a_driver_that_does_not_list_processes_is_no_warning(
    fake: Any, fake_boards: Any, ask: Callable[..., Request]
) -> None:
    fake.boards[0].fault("processes", code=fake_boards.NOT_SUPPORTED)
    fake.boards[0].fault("set_locked", code=fake_boards.NO_PERMISSION)
    listener = Listener()
    with pytest.raises(ClockControlError):
        _run(ask(), listener)
    assert listener.warned == []


@pytest.mark.parametrize(("clocks", "told"), [("current", 0), (None, 1)])
def test_a_journal_in_the_containers_own_layer_is_warned_about_where_clocks_are_set(
    fake: Any, ask: Callable[..., Request], monkeypatch: pytest.MonkeyPatch, clocks: str | None, told: int
) -> None:
    monkeypatch.setattr(surroundings, "fleeting_state_folder", lambda: Path("/root/.local/state/energyopt"))
    monkeypatch.setattr(profiling, "open_torch", _no_torch)
    listener = Listener()
    with pytest.raises(WorkloadError, match="no torch today"):
        _run(ask(clocks=clocks), listener)
    assert len(listener.warned) == told
    assert all(
        "/root/.local/state/energyopt" in one and "ENERGYOPT_STATE_DIR" in one for one in listener.warned
    )
    assert fake.open_count() == 0, "the board is closed all the same"


def _no_torch(*_: Any, **__: Any) -> None:
    raise WorkloadError("no torch today")


@contextmanager
def _wobbling(board: Any, loads: tuple[float, float]) -> Iterator[None]:
    """A board whose load moves to and fro, as real ones' power does."""
    done = threading.Event()

    def wobble() -> None:
        while not done.wait(0.015):
            board.load = loads[board.load == loads[0]]

    thread = threading.Thread(target=wobble)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_without_a_counter_power_is_integrated(
    fake: Any, fake_boards: Any, ask: Callable[..., Request]
) -> None:
    board = fake.boards[0]
    board.fault("energy", code=fake_boards.NOT_SUPPORTED)
    with _wobbling(board, (0.9, 1.0)):
        profile = _run(ask(clocks="1200", settings=_settings(window_s=0.6)))
    assert {row.energy_source for row in profile.rows} == {"power_integral"}
    low_w, high_w = board.power_w(1200, 0.9), board.power_w(1200, 1.0)
    assert low_w - 1 <= min(_powers_w(profile, 1200)) <= max(_powers_w(profile, 1200)) <= high_w + 1


def test_neither_counter_nor_power(fake: Any, fake_boards: Any, ask: Callable[..., Request]) -> None:
    for reading in ("energy", "power", "power_field"):
        fake.boards[0].fault(reading, code=fake_boards.NOT_SUPPORTED)
    with pytest.raises(DeviceError, match=r"neither energy \(.*\) nor power \(.*\)"):
        _run(ask())
    assert _left(ask()) == []
    assert not fake.calls()


def test_a_setter_that_lies(fake: Any, ask: Callable[..., Request]) -> None:
    """Nothing of a run that was for nothing stays: its cause may be gone when the same command is given again."""
    board = fake.boards[0]
    board.held_mhz = 1410
    with pytest.raises(
        MeasurementError, match="nothing could be measured: asked for 1200 MHz, ran at 1410 MHz"
    ):
        _run(ask(clocks="1200"))
    assert _left(ask()) == []
    assert board.lock_mhz is None
    board.held_mhz = 0
    assert all(row.invalid is None for row in _run(ask(clocks="1200")).rows)


def test_clocks_that_were_not_held_are_marked(fake: Any, ask: Callable[..., Request]) -> None:
    fake.boards[0].held_mhz = 1410
    profile = _run(ask())
    assert all((row.invalid is None) == (row.sm_clock_mhz == 1410) for row in profile.rows)
    assert {row.achieved_sm_clock_mhz for row in profile.rows} == {1410}


def test_a_counter_that_starts_again_in_a_window(fake: Any, ask: Callable[..., Request]) -> None:
    """The window is tried again, and the run goes on."""
    board = fake.boards[0]
    rounds: list[str] = []

    def restart(step: str) -> None:
        if step.startswith("round 1"):
            rounds.append(step)
            board.counter_reset_s = time.monotonic() + 0.2

    profile = _run(ask(clocks="1410", settings=_settings(window_s=0.4)), Listener(restart))
    assert (len(rounds), board.counter_resets) == (1, 1)
    assert all(row.invalid is None for row in profile.rows)
    assert median(_powers_w(profile, 1410)) == pytest.approx(board.power_w(1410), rel=0.04)


def test_a_lost_board_ends_the_run(fake: Any, fake_boards: Any, ask: Callable[..., Request]) -> None:
    fake.boards[0].fault("everything", code=fake_boards.GPU_IS_LOST, after=200)
    with pytest.raises(DeviceError, match=r"GPU is lost .*: reset it or restart the machine"):
        _run(ask())


def test_code_that_exits_is_a_kernel_that_fails(fake: Any, folder: Path, ask: Callable[..., Request]) -> None:
    """And not the end of the command as if all were well."""
    (folder / "training_loop.py").write_text('import sys\ndef step(): return [("forward", "f", sys.exit)]\n')
    with pytest.raises(WorkloadError, match="kernel f fails: SystemExit"):
        _run(ask())
    assert fake.boards[0].lock_mhz is None


def test_communication_needs_processes(ask: Callable[..., Request]) -> None:
    shared = ask(workload="tiny.toml", shape={"tensor_parallel": 2})
    with pytest.raises(
        RequestError, match=r"2 GPUs per stage.*torchrun with 2 processes.*--skip-communication"
    ):
        _run(shared)
    alone = replace(
        shared, device="sim:a40", clocks="1395", skip_communication=True, settings=Settings(clocks_mhz=())
    )
    profile = _run(alone)
    assert profile.metadata.workload["communication"] == "left out"
    assert not any("all_gather" in str(row.kernel) for row in profile.rows)


def test_code_that_states_no_work_is_not_simulated(ask: Callable[..., Request]) -> None:
    with pytest.raises(WorkloadError, match=r"nothing states what f computes and moves"):
        _run(ask(device="sim:a40", clocks=None))


@pytest.mark.parametrize("device", ["cuda:0", "sim", "GPU-1", ""])
def test_a_device_of_no_known_form(ask: Callable[..., Request], device: str) -> None:
    with pytest.raises(RequestError, match="none of auto, nvml:UUID, nvml:N and sim:NAME"):
        _run(ask(device=device))


def test_a_board_that_is_not_there(fake: Any, ask: Callable[..., Request]) -> None:
    with pytest.raises(DeviceError, match=rf"'GPU-nonsense'; there are {fake.boards[0].uuid}"):
        _run(ask(device="nvml:GPU-nonsense"))
    assert _left(ask()) == []


def _stop_in_round_2(step: str) -> None:
    if step.startswith("round 2"):
        raise KeyboardInterrupt


def test_a_stopped_run_goes_on(simulated: Request) -> None:
    """Windows of the first part are kept as they were: 3 clocks, a window each."""
    listener = Listener(_stop_in_round_2)
    with pytest.raises(KeyboardInterrupt):
        run_profile(simulated, listener.voice)
    assert _left(simulated) == ["p.parquet.partial"]
    assert "the same command goes on from there" in listener.said[-1]
    again = Listener()
    profile = _run(simulated, again)
    kernels = len(load_workload("tiny.toml", {}).kernels())
    assert f"p.parquet.partial: {3 * kernels} windows are there already" in again.said[0]
    assert {row.samples for row in profile.rows} == {2}


def test_what_a_run_of_other_settings_left_is_not_touched(simulated: Request) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_profile(simulated, Listener(_stop_in_round_2).voice)
    before = partial_path(simulated.output).read_bytes()
    other = replace(simulated, settings=replace(simulated.settings, seed=1))
    with pytest.raises(MeasurementError, match=r"p\.parquet\.partial holds an unfinished run .*--restart"):
        _run(other)
    assert partial_path(simulated.output).read_bytes() == before
    listener = Listener()
    _run(replace(other, restart=True), listener)
    assert not any("going on" in said for said in listener.said)


def test_a_refusal_before_the_first_window_leaves_nothing(simulated: Request) -> None:
    """Of what the message advises, nothing is refused because of the first try."""
    short = replace(simulated, settings=replace(simulated.settings, window_s=0.01))
    with pytest.raises(RequestError, match=r"0\.01 s is too short.*--window-s 0\.5"):
        _run(short)
    assert _left(short) == []
    _run(replace(simulated, settings=replace(simulated.settings, window_s=0.5)))


def test_a_record_that_cannot_be_written(simulated: Request) -> None:
    partial_path(simulated.output).mkdir()
    for restart in (False, True):
        with pytest.raises(EnergyoptError, match=r"cannot write .*p\.parquet\.partial: Is a directory"):
            run_profile(replace(simulated, restart=restart), Listener().voice)


def test_two_runs_to_one_output(simulated: Request) -> None:
    """The second is told who writes there, and what that one has measured stays."""
    with pytest.raises(KeyboardInterrupt):
        run_profile(simulated, Listener(_stop_in_round_2).voice)
    before = partial_path(simulated.output).read_bytes()

    def second(step: str) -> None:
        if step.startswith("round 2"):
            for restart in (False, True):
                with pytest.raises(
                    MeasurementError, match=r"p\.parquet\.partial is being written by process"
                ):
                    run_profile(replace(simulated, restart=restart), Listener().voice)
            assert partial_path(simulated.output).read_bytes().startswith(before)

    _run(simulated, Listener(second))


def test_windows_that_were_rejected_are_measured_again(fake: Any, ask: Callable[..., Request]) -> None:
    """A stopped run had half of its clocks at 1410 MHz against its will; by now the board is healed."""
    fake.boards[0].held_mhz = 1410
    request = ask()
    with pytest.raises(KeyboardInterrupt):
        run_profile(request, Listener(_stop_in_round_2).voice)
    fake.boards[0].held_mhz = 0
    listener = Listener()
    profile = _run(request, listener)
    assert (
        "p.parquet.partial: 2 windows are there already; 2 that were rejected are measured again"
        in (listener.said[0])
    )
    assert all(row.invalid is None and row.samples == 2 for row in profile.rows)


def test_a_clock_beside_the_steps_is_moved_and_said(simulated: Request) -> None:
    listener = Listener()
    profile = _run(replace(simulated, clocks="1405,1204"), listener)
    assert {row.sm_clock_mhz for row in profile.rows} == {1410, 1200}
    assert listener.warned == [
        "1405 MHz is no step of this board; 1410 MHz is measured instead, and 1 more likewise"
    ]


@pytest.mark.parametrize(
    ("flag", "changes"),
    [
        ("--power-limit-w", {"device": "nvml:0", "power_limit_w": 300.0}),
        ("--kernels-on cpu", {"kernels_on": "cpu"}),
        ("--site-lock-mhz", {"site_lock": "none"}),
        ("--allow-partial", {"allow_partial": True}),
        ("--skip-communication", {"skip_communication": True}),
        ("--comm-sms", {"shape": {"comm_sms": (4,)}}),
        ("--sequence-parallel", {"shape": {"sequence_parallel": True}}),
    ],
)
def test_settings_that_change_nothing_are_named(
    simulated: Request, flag: str, changes: dict[str, Any]
) -> None:
    request = replace(simulated, **changes)
    workload = load_workload(request.workload, request.shape)
    assert [found for found, _ in ignored_settings(request, workload, alone=True)] == [flag]


def test_an_ignored_setting_is_warned_about(simulated: Request) -> None:
    listener = Listener()
    _run(replace(simulated, allow_partial=True), listener)
    assert listener.warned == ["--allow-partial is ignored: one process has no other ranks"]


def test_the_source_that_was_asked_for(simulated: Request) -> None:
    settings = replace(simulated.settings, source=SourceChoice.POWER)
    profile = _run(replace(simulated, settings=settings))
    assert {row.energy_source for row in profile.rows} == {"power_integral"}
