"""Telling files apart by their content."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from energyopt.schemas.detect import FRONTIER, PIPELINE, PLAN, PROFILE, ZEUS, detect_format
from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.frontier import Frontier, write_frontier
from energyopt.schemas.plan import Plan, plan_text, write_plan
from energyopt.schemas.profile import Profile, write_profile


def test_every_format_whatever_the_file_is_called(
    tmp_path: Path, small_frontier: Frontier, small_plan: Plan, small_profile: Profile
) -> None:
    file = tmp_path / "misleading.toml"
    write_frontier(file, small_frontier)
    assert detect_format(file) == FRONTIER
    write_profile(file, small_profile)
    assert detect_format(file) == PROFILE
    write_plan(file, small_plan)
    assert detect_format(file) == PLAN
    for text in ("stages = 4\n", "[table]\n"):
        file.write_text(text)
        assert detect_format(file) == PIPELINE
    file.with_suffix(".py").write_text("\n[[('forward', 1400)]]\n")
    assert detect_format(file.with_suffix(".py")) == ZEUS


def test_a_plan_after_a_byte_order_mark_and_blank_lines(tmp_path: Path, small_plan: Plan) -> None:
    file = tmp_path / "plan"
    file.write_bytes(b"\xef\xbb\xbf\n  " + plan_text(small_plan).encode())
    assert detect_format(file) == PLAN


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"stage,instruction\n", "neither Parquet nor JSON nor"),
        (b"{", "not JSON, or cut short"),
        (b"{}", "missing field @ $.format"),
        (b'{"format": "other"}', "unknown format 'other'; known here: energyopt-plan"),
        (b'{"format": "energyopt-frontier"}', "unknown format 'energyopt-frontier'"),
        (b"PAR1", "not a Parquet file, or cut short"),
        (b"PAR1 and more that is no footer PAR1", "not a Parquet file, or cut short"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "file.dat"
    file.write_bytes(content)
    with pytest.raises(FileFormatError) as refused:
        detect_format(file)
    assert words in str(refused.value)
    assert str(file) in str(refused.value)


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({}, "none that energyopt wrote"),
        ({"energyopt": "{"}, "metadata is damaged"),
        ({"energyopt": "[]"}, "expected an object"),
        ({"energyopt": '{"format": "energyopt-plan"}'}, "unknown format 'energyopt-plan'"),
    ],
)
def test_other_parquet_files_are_refused(tmp_path: Path, metadata: dict[str, str], words: str) -> None:
    file = tmp_path / "file.parquet"
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata(metadata), file)
    with pytest.raises(FileFormatError) as refused:
        detect_format(file)
    assert words in str(refused.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(FileFormatError, match="cannot read"):
            detect_format(path)
