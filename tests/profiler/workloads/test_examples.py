"""The examples that describe a workload: complete, and measurable as their comments say."""

import importlib
import re
import sys
import tomllib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.profiling import Voice, run_profile
from energyopt.profiler.request import Request
from energyopt.profiler.workloads.architecture import Architecture
from energyopt.profiler.workloads.config_file import read_config_file
from energyopt.profiler.workloads.hf_keys import FAMILIES
from energyopt.profiler.workloads.job import JobShape, job_shape
from energyopt.profiler.workloads.open import load_workload
from energyopt.schemas.errors import WorkloadError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.profile import Level, Profile

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
TOML = EXAMPLES / "workload.toml"
CODE = "own_workload"
A100_FLOPS_PER_S = 312e12  # dense bfloat16, NVIDIA's data sheet of the A100

Measure = Callable[..., Profile]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, as the command finds it in the current folder; with small sizes for torch on a CPU."""
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = importlib.import_module(CODE)
    monkeypatch.setattr(module, "TOKENS", 64)
    monkeypatch.setattr(module, "WIDTH", 32)
    return module


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Profile on a simulated A100 at two clocks."""
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])

    def run(workload: str, *, overlap: bool = False) -> Profile:
        request = Request(
            workload=workload,
            output=tmp_path / "p.parquet",
            device="sim:a100-sxm4-80gb",
            clocks="1410,1200",
            settings=Settings(clocks_mhz=(), windows=2, early_stop=False),
            overlap=overlap,
        )
        voice = Voice(progress=lambda *_: None, say=lambda _: None, warn=lambda _: None)
        profile = run_profile(request, voice)
        assert profile is not None
        return profile

    return run


def _times_s(profile: Profile, kind: OpKind) -> list[float]:
    """At the highest clock, of each stage."""
    rows = [row for row in profile.rows if row.level is Level.OP and row.sm_clock_mhz == 1410]
    return [row.time_s for row in rows if row.op is kind]


def test_the_described_workload_is_simulated_whole(measure: Measure) -> None:
    """Four layers of one product of 2 x 4096 x 2048 x 2048 operations forward, two backward, on each stage."""
    profile = measure(f"{CODE}:described")
    least_s = 4 * 2 * 4096 * 2048 * 2048 / A100_FLOPS_PER_S
    for kind, products in ((OpKind.FORWARD, 1), (OpKind.BACKWARD, 2)):
        times_s = _times_s(profile, kind)
        assert len(times_s) == 2
        assert all(products * least_s < time_s < 3 * products * least_s for time_s in times_s)


def test_the_measured_code_runs_and_needs_a_gpu_for_its_energy(example: ModuleType, measure: Measure) -> None:
    workload = load_workload(f"{CODE}:measured", {})
    assert [op.kind for op in workload.ops] == [OpKind.FORWARD, OpKind.BACKWARD]
    for _, _, run in example.measured():
        run()
    with pytest.raises(WorkloadError, match="nothing states what product computes"):
        measure(f"{CODE}:measured")


@pytest.mark.usefixtures("example")
def test_the_described_kernels_run_too() -> None:
    import torch

    place = SimpleNamespace(torch=torch, device=torch.device("cpu"), dtype=torch.bfloat16)
    for kernel in load_workload(f"{CODE}:described", {}).kernels():
        assert kernel.flops == 2 * 64 * 32 * 32
        assert kernel.prepare is not None
        assert kernel.prepare(place)().shape == (64, 32)  # type: ignore[attr-defined]


def test_the_overlapping_workload_is_simulated_in_all_ways(measure: Measure) -> None:
    """Beside one kernel after the other: two launch points, each with the library's choice of SMs and three others.

    Overlapped, it takes no less than its products alone and no more than one after the other.
    """
    profile = measure(f"{CODE}:overlapping", overlap=True)
    rows = [row for row in profile.rows if row.level is Level.PARTITION and row.sm_clock_mhz == 1410]
    assert {(row.execution, row.comm_launch, row.comm_sms) for row in rows} == {
        ("sequential", None, None)
    } | {
        ("overlapped", launch, sms)
        for launch in ("backward.input", "backward.weight")
        for sms in (None, 4, 8, 16)
    }
    assert {(row.count, row.nanobatches) for row in rows} == {(4, 1)}
    kernels = {row.kernel: row for row in profile.rows if row.kernel and row.sm_clock_mhz == 1410}
    products_s = sum(row.time_s for name, row in kernels.items() if name != "gradients")
    best_s = min(row.time_s for row in rows)
    assert 0.99 * products_s < best_s < 0.99 * (products_s + kernels["gradients"].time_s)


def test_the_toml_is_simulated_whole(measure: Measure) -> None:
    profile = measure(str(TOML))
    assert profile.metadata.workload["model"] == "example-1b"
    assert len(_times_s(profile, OpKind.FORWARD)) == 2


def _mentioned(text: str) -> set[str]:
    return set(re.findall(r"^(?:# )?(\w+) = ", text, re.MULTILINE))


def test_the_toml_names_every_key() -> None:
    model, _, job = TOML.read_text().partition("[job]")
    assert _mentioned(model) == {one.name for one in fields(Architecture)} | {"model_type"}
    assert _mentioned(job) == {one.name for one in fields(JobShape)}
    assert all(family in model for family in FAMILIES)


def test_the_defaults_that_the_toml_shows_are_true(write_model: Callable[..., Path]) -> None:
    """Its commented keys, but for those whose text says that they show something else."""
    text = TOML.read_text()
    uncommented = re.sub(r"^# (?=\w+ = )", "", text, flags=re.MULTILINE)
    given, job = read_config_file(TOML)
    shown, shown_job = read_config_file(write_model(uncommented, "shown.toml"))
    differing = {one.name for one in fields(given) if getattr(given, one.name) != getattr(shown, one.name)}
    assert differing == {"max_position_embeddings"}
    usual, whole = job_shape(job), job_shape(shown_job)
    differing = {one.name for one in fields(usual) if getattr(usual, one.name) != getattr(whole, one.name)}
    assert differing == {"layers_per_stage", "sequence_parallel", "comm_sms"}
    assert tomllib.loads(uncommented)["job"]["layers_per_stage"] == [8, 8]
