"""Pairs of files in the artifact's form, one stage after the other; settings are drawn from its own plans."""

from collections.abc import Callable
from pathlib import Path

import pytest

Pair = Callable[..., tuple[Path, Path]]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """Writes values as a pair of files with the artifact's comments behind them."""

    def write(freqs: object, scheds: object) -> tuple[Path, Path]:
        paths = tmp_path / "freqs_pipeline_00007.py", tmp_path / "scheds_pipeline_00007.py"
        for path, value in zip(paths, (freqs, scheds), strict=True):
            text = value if isinstance(value, str) else repr(value)
            path.write_text(f"{text}\n# Iteration 7 cost change: 0.2\n# Iteration 7 total cost: 1315.8\n")
        return paths

    return write
