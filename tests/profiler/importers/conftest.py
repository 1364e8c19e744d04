from collections.abc import Callable
from pathlib import Path

import pytest

from energyopt.profiler.importers.interface import ImportedProfile
from energyopt.profiler.importers.lowtime import read_lowtime_csv


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., ImportedProfile]:
    def read_text(text: str, **settings: object) -> ImportedProfile:
        path = tmp_path / "stages.csv"
        path.write_bytes(text.encode())
        wanted: dict[str, object] = {"device_name": "A100", "wait_power_w": 80.0} | settings
        return read_lowtime_csv(path, **wanted)  # type: ignore[arg-type]

    return read_text
