"""`energyopt merge`: files in, a file out; the arithmetic is tested in tests/profiler/distributed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from energyopt.schemas.profile import Profile, read_profile, write_profile

Energyopt = Callable[..., int]


@pytest.fixture
def shards(small_profile: Profile, tmp_path: Path) -> list[Path]:
    """The small profile by two ranks, of which the second takes twice as long and as much."""
    paths = [tmp_path / "profile.rank0.parquet", tmp_path / "profile.rank1.parquet"]
    for rank, path in enumerate(paths):
        rows = tuple(
            replace(row, rank=rank, time_s=(1 + rank) * row.time_s, energy_j=(1 + rank) * row.energy_j)
            for row in small_profile.rows
        )
        metadata = replace(small_profile.metadata, device_uuid=f"GPU-{rank}")
        write_profile(path, Profile(metadata=metadata, rows=rows))
    return paths


def test_two_shards(
    energyopt: Energyopt, shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A forward at 1400 MHz: 1 s and 300 J here, 2 s and 600 J there; (300 + 1 s x 100 W + 600) / 2 = 500 J."""
    output = tmp_path / "profile.parquet"
    assert energyopt("merge", *shards, "-o", output) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"wrote {output}: 5 rows of 2 ranks, 1 invalid\n"
    row = next(one for one in read_profile(output).rows if one.op == "forward" and one.sm_clock_mhz == 1400)
    assert (row.time_s, row.energy_j, row.rank) == (2.0, 500.0, None)


def test_different_drivers_are_warned_about(
    energyopt: Energyopt, shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = read_profile(shards[1])
    write_profile(shards[1], replace(other, metadata=replace(other.metadata, driver="580.2")))
    assert energyopt("merge", *shards, "-o", tmp_path / "profile.parquet") == 0
    assert "different drivers: 570.1, 580.2" in capsys.readouterr().err


def test_a_shard_is_never_overwritten(
    energyopt: Energyopt, shards: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before = shards[0].read_bytes()
    assert energyopt("merge", *shards, "-o", shards[0]) == 2
    assert shards[0].read_bytes() == before
    assert capsys.readouterr().err.count("\n") == 1


def test_what_does_not_belong_together_is_refused(
    energyopt: Energyopt, shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "profile.parquet"
    assert energyopt("merge", shards[0], shards[0], "-o", output) == 2
    assert "each may count only once" in capsys.readouterr().err
    assert energyopt("merge", shards[0], tmp_path / "absent.parquet", "-o", output) == 2
    assert "absent.parquet" in capsys.readouterr().err
    assert not output.exists()
