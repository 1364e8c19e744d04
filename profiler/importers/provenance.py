"""What is recorded about a source: the GPU's name, the file's name, and the workload that was measured."""

import re
from collections.abc import Sequence

from energyopt.schemas.errors import EnergyoptError

WORKLOAD_KEYS = ("model", "tp", "cp", "microbatch_size", "sequence_length", "dtype")

_TEXTS = ("model", "dtype")
_COUNT = re.compile(r"[1-9][0-9]{0,8}")


def check_device_name(name: str) -> None:
    """Refuse a name of a GPU that is empty, or that a file or a terminal cannot hold.

    Raises:
        EnergyoptError: names the first such character.
    """
    if not name.strip():
        raise EnergyoptError("the name of the GPU is empty; name the one that the profile was measured on")
    if bad := _first_unprintable(name):
        raise EnergyoptError(
            f"the name of the GPU, {name!a}, holds {bad!a}; give a name of printable characters"
        )


def printable(text: str) -> str:
    """The text with a backslash escape for each character that cannot be printed or encoded."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def parse_workload(settings: Sequence[str]) -> dict[str, str | int]:
    """Read `KEY=VALUE` texts; `model` and `dtype` are texts, all others whole numbers from 1.

    Raises:
        EnergyoptError: no `=`, an unknown or repeated key, or a value that cannot be.
    """
    workload: dict[str, str | int] = {}
    for setting in settings:
        key, separator, value = (part.strip() for part in setting.partition("="))
        if not separator:
            raise EnergyoptError(f"--workload {setting!a} is not KEY=VALUE, such as tp=8")
        if key not in WORKLOAD_KEYS:
            known = ", ".join(WORKLOAD_KEYS)
            raise EnergyoptError(f"--workload has no key {key!a}; known are {known}")
        if key in workload:
            raise EnergyoptError(f"--workload gives {key} twice: {workload[key]} and {value!a}")
        workload[key] = _text(key, value) if key in _TEXTS else _count(key, value)
    return workload


def _text(key: str, value: str) -> str:
    if not value or _first_unprintable(value):
        raise EnergyoptError(f"--workload {key} must be printable text, not {value!a}")
    return value


def _count(key: str, value: str) -> int:
    if not _COUNT.fullmatch(value):
        raise EnergyoptError(f"--workload {key} must be a whole number from 1, not {value!a}")
    return int(value)


def _first_unprintable(text: str) -> str | None:
    return next((one for one in text if not one.isprintable()), None)
