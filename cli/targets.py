"""Where commands may write."""

import os
from pathlib import Path

from energyopt.schemas.errors import RequestError


def refuse_overwrite(destination: Path, *inputs: Path | None, flag: str = "-o") -> None:
    """Refuse a destination that is an input of the same command, through whatever link.

    Raises:
        RequestError: names the file.
    """
    for one in inputs:
        if one is not None and same_file(destination, one):
            raise RequestError(f"{destination} is an input of this command; give another file to {flag}")


def same_file(left: Path, right: Path) -> bool:
    """Whether two paths name one file, through whatever link; neither needs to exist."""
    if left.exists() and right.exists():
        return left.samefile(right)
    return os.path.realpath(left) == os.path.realpath(right)
