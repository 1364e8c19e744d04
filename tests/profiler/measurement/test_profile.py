import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent
from energyopt.profiler.benches.simulated import SimulatedBench, open_simulated_bench
from energyopt.profiler.measurement.job import Job, Measured
from energyopt.profiler.measurement.profile import profile_of
from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.measurement.sweep import TRIES
from energyopt.profiler.profiling import Voice, settings_for
from energyopt.profiler.request import Request
from energyopt.profiler.workloads.interface import Kernel
from energyopt.schemas.profile import Level

A100 = "a100-sxm4-80gb"
CLOCKS = (1410, 1005)

MakeJob = Callable[..., Job]
RunJob = Callable[[Job], Measured]


@pytest.fixture
def bench() -> SimulatedBench:
    return open_simulated_bench(A100)


def without_counter(monkeypatch: pytest.MonkeyPatch, bench: SimulatedBench, name: str, clock: int) -> None:
    """The counter cannot be read while this kernel runs at this clock, though it was in the calibration."""
    run, energy_j = bench.run, bench.device.energy_j
    running: list[str] = []

    def note(kernel: Kernel, repeats: int, poll: Any = None) -> float:
        running[:] = [kernel.name]
        elapsed_s = run(kernel, repeats, poll)
        running.clear()
        return elapsed_s

    def read() -> float | Absent:
        if running == [name] and bench.device.find_clocks().locked_mhz == (clock, clock):
            return Absent("no answer")
        return energy_j()

    monkeypatch.setattr(bench, "run", note)
    monkeypatch.setattr(bench.device, "energy_j", read)


def test_a_kernel_that_gave_no_number_is_named_and_leaves_no_row_of_what_runs_it(
    bench: SimulatedBench, make_job: MakeJob, run_job: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_counter(monkeypatch, bench, "stream", 1005)
    warned: list[str] = []
    job = make_job(bench, warned=warned, clocks_mhz=CLOCKS, windows=2)
    profile = profile_of(job, run_job(job))
    (warning,) = warned
    assert warning == (
        "no number, and no row for what runs it: stream at 1005 MHz: "
        "the energy counter advanced 0 times in the window (no answer)"
    )
    found = {(row.level, row.kernel, row.sm_clock_mhz) for row in profile.rows}
    assert found == {
        *((Level.KERNEL, "product", clock) for clock in CLOCKS),
        *((level, None, 1410) for level in (Level.PARTITION, Level.OP)),
        (Level.KERNEL, "stream", 1410),
    }
    assert all(row.invalid is None for row in profile.rows)
    how = profile.metadata.measurement
    assert (how["kernels_without_number"], how["rejected_windows"]) == (1, 2 * TRIES)
    assert int(how["lost_readings"]) > 2 * 10  # windows and looks


def test_more_than_one_kernel_without_a_number_are_counted(
    bench: SimulatedBench, make_job: MakeJob, run_job: RunJob
) -> None:
    warned: list[str] = []
    job = make_job(bench, warned=warned, clocks_mhz=CLOCKS, windows=2)
    measured = run_job(job)
    fewer = {key: windows for key, windows in measured.windows.items() if key[1] == 1410}
    how = profile_of(job, replace(measured, windows=fewer)).metadata.measurement
    assert how["kernels_without_number"] == 2
    assert warned == ["no number, and no row for what runs it: product at 1005 MHz: not measured, and 1 more"]


def test_windows_that_were_tried_again_count_as_rejected(
    bench: SimulatedBench, make_job: MakeJob, run_job: RunJob
) -> None:
    """Of four windows, one came at the second try and one not at the third."""
    job = make_job(bench, clocks_mhz=(1410,), windows=2)
    measured = run_job(job)
    clean = profile_of(job, measured).metadata.measurement
    assert (clean["windows"], clean["rejected_windows"], clean["lost_readings"]) == (4, 0, 0)
    second, never = measured.windows["product", 1410]
    changed = {
        ("product", 1410): [
            replace(second, tries=2, lost_readings=5),
            replace(never, tries=3, rejected="too hot", lost_readings=1),
        ]
    }
    how = profile_of(job, replace(measured, windows={**measured.windows, **changed})).metadata.measurement
    assert (how["windows"], how["rejected_windows"], how["lost_readings"]) == (4, 1 + 3, 6)


@pytest.mark.parametrize(
    ("mig", "kernels_on", "added"),
    [
        (False, "cuda", ""),
        (False, "simulation", ""),
        (False, "cpu", " (kernels on the CPU)"),
        (True, "cuda", " (MIG slice)"),
        (True, "cpu", " (MIG slice) (kernels on the CPU)"),
    ],
)
def test_a_name_tells_what_makes_the_numbers_unfit_for_the_whole_board(
    mig: bool,
    kernels_on: str,
    added: str,
    bench: SimulatedBench,
    make_job: MakeJob,
    run_job: RunJob,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that no plan takes them for those of such a board."""
    identity = replace(bench.device.identity, name="A GPU", mig=mig)
    monkeypatch.setattr(bench.device, "_identity", identity)
    job = replace(make_job(bench, clocks_mhz=(1410,), windows=2), kernels_on=kernels_on)
    meta = profile_of(job, run_job(job)).metadata
    assert meta.device_name == f"A GPU{added}"
    assert meta.measurement["kernels_on"] == kernels_on
    assert meta.measurement.get("mig") == ("yes: energy of the whole board" if mig else None)


@pytest.mark.parametrize("version", ["2.99.1", None])
def test_the_version_of_torch_that_ran_the_kernels_is_kept(
    version: str | None,
    bench: SimulatedBench,
    make_job: MakeJob,
    run_job: RunJob,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__=version))  # type: ignore[arg-type]
    job = make_job(bench, clocks_mhz=(1410,), windows=2)
    assert profile_of(job, run_job(job)).metadata.measurement.get("torch") == version


@pytest.mark.parametrize("mig", [False, True])
def test_a_slice_is_warned_about_for_the_board_counts_its_neighbours_too(
    mig: bool, bench: SimulatedBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(bench.device, "_identity", replace(bench.device.identity, name="A GPU", mig=mig))
    warned: list[str] = []
    voice = Voice(progress=lambda *_: None, say=warned.append, warn=warned.append)
    request = Request(workload="w", output=tmp_path, clocks="1410", settings=Settings(clocks_mhz=()))
    assert settings_for(request, bench.device, voice).clocks_mhz == (1410,)
    assert len(warned) == mig
    assert all("A GPU is shared by MIG: its readings are those of the whole board" in one for one in warned)
