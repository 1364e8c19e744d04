"""A profile worked out in tests/conftest.py, on disk."""

from collections.abc import Callable
from pathlib import Path

import pytest

from energyopt.cli.main import main
from energyopt.schemas.profile import Profile, write_profile

Energyopt = Callable[..., int]


@pytest.fixture
def energyopt() -> Energyopt:
    """Run the command line in this process; return its exit code."""
    return lambda *words: main([str(word) for word in words])


@pytest.fixture
def profile_file(small_profile: Profile, tmp_path: Path) -> Path:
    """The small profile as profile.parquet."""
    path = tmp_path / "profile.parquet"
    write_profile(path, small_profile)
    return path


@pytest.fixture
def frontier_file(energyopt: Energyopt, profile_file: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    """Its frontier at 2 stages x 2 microbatches."""
    path = profile_file.with_name("frontier.parquet")
    assert energyopt("plan", profile_file, "-o", path, "--stages", 2, "--microbatches", 2) == 0
    capfd.readouterr()
    return path
