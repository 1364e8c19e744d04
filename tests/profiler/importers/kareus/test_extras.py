from collections.abc import Callable
from pathlib import Path

import pytest

from energyopt.profiler.importers.kareus.extras import Mean, read_extras, unused_folders
from energyopt.schemas.errors import FileFormatError

HEADER = "time (s),total_energy (J),per_rank_energy (J)\n"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes one file of a job's folder and gives that folder."""

    def write_text(text: str, name: str = "loss", clock: str = "1410") -> Path:
        folder = tmp_path / "nonpartition" / clock
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}_energy.csv").write_text(text)
        return tmp_path

    return write_text


def test_one_row(write: Write) -> None:
    write(HEADER + "0.01,16,2\n", clock="900")
    found = read_extras(write(HEADER + "0.004,8,1\n"), 2000.0, 8)
    assert found["loss"] == {
        900: Mean(time_s=0.01, energy_j=2.0, rows=1),
        1410: Mean(time_s=0.004, energy_j=1.0, rows=1),
    }
    assert [name for name, means in found.items() if not means] == [
        "preprocess", "postprocess", "preprocess_backward", "postprocess_backward",
    ]  # fmt: skip


def test_the_mean_of_several_rows(write: Write) -> None:
    found = read_extras(write(HEADER + "0.004,8,1\n0.006,16,2\n0.005,24,3\n"), 2000.0, 8)
    assert found["loss"][1410] == Mean(time_s=pytest.approx(0.005), energy_j=2.0, rows=3)


def test_no_folder_is_nothing(tmp_path: Path) -> None:
    assert not any(read_extras(tmp_path, 2000.0, 8).values())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty; expected a header"),
        (HEADER, "a header without any row"),
        (HEADER + "0.004,8\n", "line 2 is cut short: 2 cells for 3 columns"),
        ("time (s),total_energy (J)\n1,2\n", r"missing column per_rank_energy \(j\)"),
        (HEADER.strip() + ",rank0 energy (J)\n1,2,1,1\n", r"unknown column 'rank0 energy \(j\)'"),
        (HEADER + "0,8,1\n", r"column time \(s\): '0' is not above zero"),
        (HEADER + "0.004,8,nan\n", r"column per_rank_energy \(j\): 'nan' is not a finite number"),
        (
            HEADER + "0.004,8,3\n",
            r"column per_rank_energy \(j\): '3' is not one GPU's part of the total, 8 J.*2.66667 ranks, .* 8 GPU",
        ),
        (HEADER + "0.004,1,8\n", r"'8' is not one GPU's part of the total, 1 J"),
        (HEADER + "0.004,4,1\n", r"'1' is not one GPU's part .* would be 4 ranks, but the job has 8 GPU"),
        (HEADER + "0.004,8000,1000\n", r"line 2, .*'1000' is a mean power of 2.5e\+05 W.*in mJ"),
    ],
)
def test_files_that_cannot_be(write: Write, text: str, complaint: str) -> None:
    with pytest.raises(FileFormatError, match=rf"1410/loss_energy.csv: .*{complaint}") as caught:
        read_extras(write(text), 2000.0, 8)
    assert "\n" not in str(caught.value)


def test_folders_that_are_no_clock(write: Write) -> None:
    assert unused_folders(write(HEADER + "0.004,8,1\n", clock="default")) == ["default"]
    with pytest.raises(
        FileFormatError, match="1410000: the folder's name is not a clock in MHz; it looks like kHz"
    ):
        read_extras(write(HEADER, clock="1410000"), 2000.0, 8)
