import sys
from pathlib import Path

import pytest

from energyopt.profiler.doctor import software
from energyopt.profiler.doctor.records import Fact


def _installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    names = {name.replace("_", "-"): number for name, number in versions.items()}
    monkeypatch.setattr(software, "_version", names.get)


def _facts(monkeypatch: pytest.MonkeyPatch) -> dict[str, Fact]:
    monkeypatch.setattr(software, "torch_fact", lambda _: Fact(name="torch", found="not looked at"))
    return {fact.name: fact for fact in software.software_facts()}


@pytest.mark.parametrize(
    ("code", "found", "remedy"),
    [
        ("print('2.9.0', '12.8', 8)", "2.9.0, CUDA 12.8, 8 visible", None),
        ("print('2.9.0', '12.8', 0)", "2.9.0, CUDA 12.8, 0 visible", "CUDA_VISIBLE_DEVICES"),
        ("print('2.9.0', 'none', 0)", "2.9.0, built without CUDA", "a build with CUDA"),
        ("raise ImportError('libcudart')", "cannot be imported: ImportError: libcudart", "install it anew"),
        ("import os; os.abort()", "cannot be imported: no message", "install it anew"),
        ("import time; time.sleep(600)", "does not answer within 0.5 s", "nvidia-smi"),
    ],
)
def test_torch_is_asked_in_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch, code: str, found: str, remedy: str | None
) -> None:
    _installed(monkeypatch, torch="2.9.0")
    fact = software.torch_fact(
        [sys.executable, "-I", "-S", "-c", code], limit_s=0.5 if "sleep" in code else 60
    )
    assert fact.found == found
    assert (fact.remedy is None) if remedy is None else (remedy in (fact.remedy or ""))


def test_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch)
    assert software.torch_fact(["/no/such/program"]).found == "not installed"


def test_the_unmaintained_bindings_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, nvidia_ml_py="13.590")
    assert "pynvml" not in _facts(monkeypatch)
    _installed(monkeypatch, nvidia_ml_py="13.590", pynvml="11.5.3")
    assert "pip uninstall pynvml" in (_facts(monkeypatch)["pynvml"].remedy or "")


def test_a_state_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ENERGYOPT_STATE_DIR", str(tmp_path / "state"))
    assert _facts(monkeypatch)["state folder"] == Fact(name="state folder", found=str(tmp_path / "state"))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ENERGYOPT_STATE_DIR", str(tmp_path / "file"))
    assert "ENERGYOPT_STATE_DIR" in (_facts(monkeypatch)["state folder"].remedy or "")


def test_a_state_folder_that_goes_with_the_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ENERGYOPT_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(software, "fleeting_state_folder", lambda: tmp_path)
    fact = _facts(monkeypatch)["state folder"]
    assert fact.found == f"{tmp_path}, in this container's own layer"
    assert "set ENERGYOPT_STATE_DIR to a folder of the host" in (fact.remedy or "")


@pytest.mark.parametrize("value", [None, "", "0,1"])
def test_what_cuda_may_see(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    expected = "not set" if value is None else repr(value)
    assert _facts(monkeypatch)["CUDA_VISIBLE_DEVICES"].found == expected
