"""Where commands may write."""

from pathlib import Path

from energyopt.schemas.errors import RequestError


def refuse_overwrite(destination: Path, *inputs: Path | None) -> None:
    """Refuse a destination that is an input of the same command, through whatever link.

    Raises:
        RequestError: names the file.
    """
    for one in inputs:
        if one is not None and one.exists() and destination.exists() and destination.samefile(one):
            raise RequestError(f"{destination} is an input of this command; give another file to -o")
