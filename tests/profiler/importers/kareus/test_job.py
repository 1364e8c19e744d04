from pathlib import Path

import pytest

from energyopt.profiler.importers.kareus.job import Job, job_of
from energyopt.schemas.errors import EnergyoptError, FileFormatError


def made(folder: Path, told: dict[str, str | int] | None = None, layers: tuple[int, ...] = (14, 14)) -> Job:
    folder.mkdir(parents=True)
    return job_of(folder, layers, recompute=True, told=told or {})


def test_the_name_says_it_all(tmp_path: Path) -> None:
    job = made(tmp_path / "llama3.2_3b" / "cp2-tp4-bs16-seq4096")
    assert job.workload == {
        "model": "llama3.2_3b", "cp": 2, "tp": 4, "microbatch_size": 16, "sequence_length": 4096,
        "layers_per_stage": "14,14", "recompute": "full",
    }  # fmt: skip
    assert (job.layout.name, job.gpus_per_stage) == ("context parallel", 8)


@pytest.mark.parametrize("name", ["cp1_tp8_mbs8_seq4096", "cp1-tp8-bs8-seq4096"])
def test_other_ways_to_write_it(tmp_path: Path, name: str) -> None:
    job = made(tmp_path / "m" / name)
    assert (job.layout.name, job.gpus_per_stage, job.workload["microbatch_size"]) == ("tensor parallel", 8, 8)


def test_where_the_shell_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "m" / "cp1-tp8-bs8-seq4096"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert job_of(Path(), (28,), recompute=False, told={}).workload["model"] == "m"


def test_what_is_told_goes_first(tmp_path: Path) -> None:
    job = made(tmp_path / "m" / "cp1-tp8-bs8-seq4096", {"model": "other", "tp": 4, "dtype": "bfloat16"})
    assert (job.workload["model"], job.gpus_per_stage, job.workload["dtype"]) == ("other", 4, "bfloat16")


def test_a_name_that_says_nothing(tmp_path: Path) -> None:
    with pytest.raises(EnergyoptError, match=r"does not give tp and cp; add --workload tp=N --workload cp=N"):
        made(tmp_path / "job")
    job = job_of(tmp_path / "job", (1,), recompute=False, told={"tp": 2, "cp": 1})
    assert job.workload == {"tp": 2, "cp": 1, "layers_per_stage": "1", "recompute": "none"}


@pytest.mark.parametrize("name", ["cp0-tp8-bs8-seq4096", "cp1-tp8-bs8-seq4096-old", "xcp1-tp8-bs8-seq4096"])
def test_names_that_are_near(tmp_path: Path, name: str) -> None:
    with pytest.raises(EnergyoptError, match="its name is not like cp1-tp8-bs8-seq4096"):
        made(tmp_path / name)


def test_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "absent"):
        with pytest.raises(FileFormatError, match="is no folder; give the one of a job"):
            job_of(tmp_path / name, (1,), recompute=True, told={})


@pytest.mark.parametrize("layers", [(), (14, 0)])
def test_stages_without_layers(tmp_path: Path, layers: tuple[int, ...]) -> None:
    with pytest.raises(EnergyoptError, match="every stage needs at least 1 layer"):
        made(tmp_path / "cp1-tp8-bs8-seq4096", layers=layers)
