from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent, Throttle
from energyopt.profiler.benches.simulated import SimulatedBench, open_simulated_bench
from energyopt.profiler.measurement.job import Job, Measured
from energyopt.profiler.measurement.partial import Partial
from energyopt.profiler.measurement.profile import profile_of
from energyopt.profiler.measurement.run import measure
from energyopt.profiler.workloads.interface import Kernel
from energyopt.schemas.errors import ClockControlError, MeasurementError, WorkloadError
from energyopt.schemas.profile import Level, read_profile, write_profile

A100 = "a100-sxm4-80gb"
CLOCKS = (1410, 1200, 1005)
FOUND_FIRST = 3  # calibration, resting and plan: a record with nothing else is not kept
RECORDS = FOUND_FIRST + len(CLOCKS) * 2 * 2 + 1  # two kernels in two rounds; the latency

MakeJob = Callable[..., Job]
RunJob = Callable[[Job], Measured]


class Killed(KeyboardInterrupt):
    """Stands for Ctrl-C."""


class Dying(Partial):
    """A record whose process is killed when so many things have been kept."""

    left = 0

    def add(self, kind: str, value: dict[str, Any]) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1
        super().add(kind, value)


def small(bench: SimulatedBench, make_job: MakeJob) -> Job:
    return make_job(bench, clocks_mhz=CLOCKS, windows=2, soak_s=10.0)


def windows_of(path: Path) -> list[tuple[str, int, int]]:
    with Partial(path, "digest", "test") as partial:
        return [(one["kernel"], one["sm_clock_mhz"], one["round"]) for one in partial.all("window")]


@pytest.mark.parametrize("kept", range(RECORDS))
def test_a_run_that_is_killed_anywhere_goes_on_and_measures_each_window_once(
    kept: int, tmp_path: Path, make_job: MakeJob
) -> None:
    path = tmp_path / "p.partial"
    bench = open_simulated_bench(A100, seed=kept)
    with Dying(path, "digest", "test") as partial, pytest.raises(Killed):
        partial.left = kept
        measure(small(bench, make_job), partial)
    before = path.read_bytes() if kept > FOUND_FIRST else b""
    assert before.count(b"\n") == (1 + kept if kept > FOUND_FIRST else 0)
    with Partial(path, "digest", "test") as partial:
        measured = measure(small(open_simulated_bench(A100, seed=99), make_job), partial)
    assert path.read_bytes().startswith(before)
    expected = {
        (name, clock, number) for name in ("product", "stream") for clock in CLOCKS for number in (0, 1)
    }
    assert Counter(windows_of(path)) == Counter(expected)
    assert {(name, clock) for name, clock in measured.windows} == {one[:2] for one in expected}
    assert all(len(windows) == 2 for windows in measured.windows.values())
    assert bench.device.find_clocks().locked_mhz is None


def test_a_run_that_is_complete_measures_nothing_again(tmp_path: Path, make_job: MakeJob) -> None:
    path = tmp_path / "p.partial"
    with Partial(path, "digest", "test") as partial:
        first = measure(small(open_simulated_bench(A100), make_job), partial)
    before = path.read_bytes()
    with Partial(path, "digest", "test") as partial:
        again = measure(small(open_simulated_bench(A100, seed=5), make_job), partial)
    assert path.read_bytes() == before
    assert (again.windows, again.plan, again.resting, again.latency) == (
        first.windows,
        first.plan,
        first.resting,
        first.latency,
    )


def test_a_sweep_that_stopped_early_stops_there_again(tmp_path: Path, make_job: MakeJob) -> None:
    """The choice rests on the first round alone, which the record holds."""
    path = tmp_path / "p.partial"
    clocks = tuple(range(1410, 500, -45))

    def run(seed: int) -> Measured:
        job = make_job(
            open_simulated_bench(A100, seed=seed), clocks_mhz=clocks, windows=2, early_stop=True, soak_s=10.0
        )
        with Partial(path, "digest", "test") as partial:
            if partial.last("resting") is None:
                partial.records.append({"kind": "resting", "value": _cheap_waiting()})
            return measure(job, partial)

    first = run(0)
    assert first.stopped_at_mhz is not None
    path_bytes = path.read_bytes()
    assert run(1).clocks_mhz == first.clocks_mhz
    assert path.read_bytes() == path_bytes


def _cheap_waiting() -> dict[str, Any]:
    power = {"mean": 1.0, "std": 0.1, "samples": 3}
    return {"idle_power": power, "wait_power": power}


def noting(monkeypatch: pytest.MonkeyPatch, bench: SimulatedBench) -> list[int]:
    """The clocks that are asked for from now on."""
    asked: list[int] = []
    lock = bench.device.lock_sm_clock

    def note(sm_clock_mhz: int) -> None:
        asked.append(sm_clock_mhz)
        lock(sm_clock_mhz)

    monkeypatch.setattr(bench.device, "lock_sm_clock", note)
    return asked


def test_clocks_are_set_from_the_highest_down_and_given_back(
    make_job: MakeJob, run_job: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = open_simulated_bench(A100)
    asked = noting(monkeypatch, bench)
    run_job(small(bench, make_job))
    assert asked[:6] == [1410, 1200, 1005] * 2  # one that is held already is not set again
    assert set(asked[6:]) == {1410, 1005}  # timing the switches
    assert bench.device.find_clocks().locked_mhz is None


def test_a_lock_that_was_found_is_given_back(make_job: MakeJob, run_job: RunJob) -> None:
    bench = open_simulated_bench(A100)
    bench.device.lock_sm_clock(1305)
    run_job(small(bench, make_job))
    assert bench.device.find_clocks().locked_mhz == (1305, 1305)


@pytest.mark.parametrize("error", [WorkloadError("kernel stream fails: out of memory"), Killed()])
def test_clocks_are_given_back_after_an_exception_in_a_kernel(
    error: BaseException, make_job: MakeJob, run_job: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = open_simulated_bench(A100)
    asked, run = noting(monkeypatch, bench), bench.run

    def fail(kernel: Kernel, repeats: int, poll: Any = None) -> float:
        if kernel.name == "stream" and 1005 in asked:
            raise error
        return run(kernel, repeats, poll)

    monkeypatch.setattr(bench, "run", fail)
    with pytest.raises(type(error)):
        run_job(small(bench, make_job))
    assert asked == [1410, 1200, 1005]
    assert bench.device.find_clocks().locked_mhz is None


def test_the_current_clock_is_measured_without_setting_any(
    make_job: MakeJob, run_job: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = open_simulated_bench(A100, power_limit_w=500.0)
    bench.device.lock_sm_clock(1305)
    asked = noting(monkeypatch, bench)
    job = make_job(bench, clocks_mhz=(), windows=2)
    measured = run_job(job)
    assert asked == []
    assert (measured.clocks_mhz, measured.latency) == ((1305,), None)
    assert profile_of(job, measured).metadata.measurement["clocks_set"] == "no: as the board was found"


def test_what_a_run_finds_is_true(make_job: MakeJob, run_job: RunJob) -> None:
    bench = open_simulated_bench(A100, seed=3)
    measured = run_job(small(bench, make_job))
    assert measured.calibration.tick_s == pytest.approx(0.1, abs=2e-3)
    assert measured.calibration.counter_over_power == pytest.approx(1.0, abs=0.03)
    assert measured.plan.timing.window_s == pytest.approx(1.0, abs=0.02)
    assert measured.resting.idle_power.mean == pytest.approx(bench.true_idle_power_w(1410, 45.0), rel=0.1)
    assert measured.resting.wait_power.mean == pytest.approx(bench.true_wait_power_w(1410, 45.0), rel=0.1)
    assert measured.latency is not None
    assert 0.005 < measured.latency.median_s < 0.027


def test_the_profile_tells_where_its_numbers_come_from(
    make_job: MakeJob, run_job: RunJob, tmp_path: Path
) -> None:
    job = small(open_simulated_bench(A100), make_job)
    measured = run_job(job)
    profile = profile_of(job, measured)
    write_profile(tmp_path / "p.parquet", profile)
    found = read_profile(tmp_path / "p.parquet")
    assert found == replace(profile, rows=found.rows)
    assert len(found.rows) == len(CLOCKS) * (2 + 1 + 1)  # kernels, partition, op
    meta = found.metadata
    assert (meta.device_kind, meta.power_limit_w, meta.memory_clock_mhz) == ("simulated", 400.0, 1593)
    assert meta.wait_power_w == measured.resting.wait_power.mean
    assert meta.clock_switch_latency_s == measured.latency.median_s  # type: ignore[union-attr]
    how = meta.measurement
    assert (how["energy_source"], how["windows_per_row"], how["windows"]) == ("counter", 2, 12)
    assert (how["rejected_windows"], how["clocks_set"], how["seed"]) == (0, "yes", 0)
    assert {row.level for row in found.rows} == set(Level)


def test_a_board_that_throttles_all_the_time_gives_an_error_with_the_reason(
    make_job: MakeJob, run_job: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = open_simulated_bench(A100)
    state = bench.device.state
    monkeypatch.setattr(bench.device, "state", lambda: replace(state(), throttle=Throttle.HW_SLOWDOWN))
    job = small(bench, make_job)
    with pytest.raises(MeasurementError, match="nothing could be measured: throttled by HW_SLOWDOWN"):
        profile_of(job, run_job(job))


def test_a_setter_that_lies_is_found_out_row_by_row(
    make_job: MakeJob, run_job: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = open_simulated_bench(A100, power_limit_w=600.0)
    lock = bench.device.lock_sm_clock
    monkeypatch.setattr(bench.device, "lock_sm_clock", lambda clock: lock(1305 if clock == 1200 else clock))
    job = small(bench, make_job)
    for row in profile_of(job, run_job(job)).rows:
        assert (row.invalid is not None) == (row.sm_clock_mhz == 1200)
        assert row.invalid is None or "asked for 1200 MHz, ran at 1305 MHz" in row.invalid


def test_a_board_whose_clocks_may_not_be_set_is_refused_before_anything_runs(
    scripted: Callable[..., Any], make_job: MakeJob, run_job: RunJob
) -> None:
    bench = scripted()

    def refuse(sm_clock_mhz: int) -> None:
        raise ClockControlError(f"no permission for {sm_clock_mhz} MHz")

    bench.device.lock_sm_clock = refuse
    with pytest.raises(ClockControlError, match="no permission for 1410 MHz"):
        run_job(make_job(bench))
    assert bench.now_s() == 0.0


def test_a_counter_and_a_power_that_disagree_are_warned_about(
    scripted: Callable[..., Any], make_job: MakeJob, run_job: RunJob
) -> None:
    warned: list[str] = []
    job = make_job(scripted(counter=lambda now_s: 260.0 * now_s), warned=warned)
    measured = run_job(job)
    assert len(warned) == 1
    assert "1.30 times" in warned[0]
    how = profile_of(job, measured).metadata.measurement
    assert how["counter_over_power"] == pytest.approx(1.3, rel=1e-3)
    assert how["energy_source"] == "counter"


def test_a_board_without_a_thermometer_is_measured_all_the_same(
    make_job: MakeJob, run_job: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = open_simulated_bench(A100)
    state = bench.device.state
    absent = Absent("not supported")
    monkeypatch.setattr(bench.device, "state", lambda: replace(state(), temperature_c=absent))
    job = small(bench, make_job)
    rows = profile_of(job, run_job(job)).rows
    assert {(row.temperature_start_c, row.temperature_end_c, row.invalid) for row in rows} == {
        (None, None, None)
    }
