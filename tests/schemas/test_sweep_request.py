"""The TOML file of a sweep: what it may say, and every refusal."""

from pathlib import Path

import pytest

from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.sweep_request import SweepRequest, read_sweep_toml

ROOT = Path(__file__).resolve().parents[2]
LEAST = 'profiles = "tp8.parquet"\ngpus = 64\nglobal_batch = 128\nstages = [2, 4]\n'


def _read(folder: Path, text: str) -> SweepRequest:
    path = folder / "jobs.toml"
    path.write_text(text)
    return read_sweep_toml(path)


def test_what_is_not_given(tmp_path: Path) -> None:
    assert _read(tmp_path, LEAST) == SweepRequest(
        folder=tmp_path, profiles=("tp8.parquet",), gpus=(64,), global_batch=128, stages=(2, 4)
    )


def test_everything(tmp_path: Path) -> None:
    more = 'schedule = ["1f1b", "gpipe"]\nchunks = 2\nmicrobatches = [8, 16]\np2p_time_s = 1e-4\nfixed_time_s = 0\n'
    found = _read(tmp_path, LEAST + more)
    assert (found.schedules, found.chunks, found.microbatches) == (("1f1b", "gpipe"), (2,), (8, 16))
    assert (found.p2p_time_s, found.fixed_time_s) == (1e-4, 0.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpus = 64\nglobal_batch = 1\nstages = 1\n", "missing field @ $.profiles"),
        (LEAST + "stage = 3\n", "unknown field 'stage'"),
        (LEAST.replace("[2, 4]", "[2, 2]"), "2 stands there twice @ $.stages"),
        (LEAST.replace("[2, 4]", "[]"), "expected at least one value @ $.stages"),
        (LEAST.replace("[2, 4]", "[0]"), "expected at least 1, found 0 @ $.stages[0]"),
        (LEAST.replace("[2, 4]", "[2.0]"), "expected an integer, found 2.0 @ $.stages[0]"),
        (LEAST.replace("64", "2000000"), "expected at most 1000000, found 2000000 @ $.gpus"),
        (LEAST.replace("128", "[1, 2]"), "expected an integer, found [1, 2] @ $.global_batch"),
        (LEAST.replace('"tp8.parquet"', "8"), "expected text, found 8 @ $.profiles"),
        (LEAST + "p2p_time_s = -1\n", "expected at least 0, found -1 @ $.p2p_time_s"),
        (LEAST + "fixed_time_s = 1e7\n", "expected at most 1e+06 s, found 1e+07 @ $.fixed_time_s"),
        (LEAST + "fixed_time_s = nan\n", "expected a finite number @ $.fixed_time_s"),
        ("gpus = \n", "not TOML"),
    ],
)
def test_refusals_name_the_field(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FileFormatError) as refused:
        _read(tmp_path, text)
    assert words in str(refused.value)
    assert str(tmp_path / "jobs.toml") in str(refused.value)


def test_the_example_can_be_read() -> None:
    found = read_sweep_toml(ROOT / "examples" / "sweep.toml")
    assert len(found.stages) > 1
