from pathlib import Path

import pytest

from energyopt.applier.kareus.files import pair_at, scheds_beside
from energyopt.schemas.errors import RequestError


def test_the_settings_beside_the_clocks(tmp_path: Path) -> None:
    (tmp_path / "scheds_pipeline_00007.py").touch()
    found = scheds_beside(tmp_path / "freqs_pipeline_00007.py")
    assert found == tmp_path / "scheds_pipeline_00007.py"


def test_settings_that_cannot_be_found(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"scheds_8\.py beside .*import zeus"):
        scheds_beside(tmp_path / "freqs_8.py")
    with pytest.raises(RequestError, match=r"is not named freqs_\*.*name SCHEDS"):
        scheds_beside(tmp_path / "clocks.py")


@pytest.mark.parametrize(
    ("destination", "name"),
    [
        (".", "pipeline_00012.py"),
        ("best", "best.py"),
        ("best.py", "best.py"),
        ("freqs_best.py", "best.py"),
        ("scheds_best.py", "best.py"),
        ("v1.2", "v1.2.py"),
    ],
)
def test_where_a_pair_is_written(tmp_path: Path, destination: str, name: str) -> None:
    assert pair_at(tmp_path / destination, 12) == (tmp_path / f"freqs_{name}", tmp_path / f"scheds_{name}")
