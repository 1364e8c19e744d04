"""Where the two files of a plan stand: beside each other, as freqs_NAME.py and scheds_NAME.py."""

from pathlib import Path

from energyopt.schemas.errors import RequestError

_FREQS, _SCHEDS = "freqs_", "scheds_"


def scheds_beside(freqs: Path) -> Path:
    """The settings that belong to a list of clocks, by its name.

    Raises:
        RequestError: its name does not say, or there is no such file.
    """
    if not freqs.name.startswith(_FREQS):
        raise RequestError(
            f"{freqs} is not named {_FREQS}*, so its settings cannot be found; name SCHEDS too"
        )
    found = freqs.with_name(_SCHEDS + freqs.name.removeprefix(_FREQS))
    if not found.exists():
        raise RequestError(
            f"there is no {found} beside {freqs}; name SCHEDS, or read the clocks alone with `import zeus`"
        )
    return found


def pair_at(destination: Path, number: int) -> tuple[Path, Path]:
    """Where to write clocks and settings.

    In a folder they are named as the artifact names them, by the number of the frontier's point; otherwise
    `destination` is one of the two, or what their names share.
    """
    if destination.is_dir():
        destination = destination / f"pipeline_{number:05d}"
    name = destination.name.removesuffix(".py").removeprefix(_FREQS).removeprefix(_SCHEDS)
    return destination.with_name(f"{_FREQS}{name}.py"), destination.with_name(f"{_SCHEDS}{name}.py")
