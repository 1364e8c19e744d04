"""Typed access to parsed JSON or TOML, with the path to the field in every complaint."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from energyopt.schemas.errors import FileFormatError

_LARGEST = 2**63 - 1  # what other readers of JSON, and Parquet, can hold


@dataclass(frozen=True, slots=True)
class Node:
    """A value inside a file and the way to it, such as `$.stages[3].ops[0].sm_clock_mhz`."""

    file: Path | str
    path: str
    value: Any

    def fail(self, problem: str) -> NoReturn:
        """Raise FileFormatError with this node's file and path."""
        raise FileFormatError(f"{self.file}: {problem} @ {self.path}")

    def field(self, name: str) -> "Node":
        """The member `name` of an object; it must be there."""
        if not isinstance(self.value, dict):
            self.fail("expected an object")
        if name not in self.value:
            raise FileFormatError(f"{self.file}: missing field @ {self.path}.{name}")
        return Node(self.file, f"{self.path}.{name}", self.value[name])

    def optional(self, name: str) -> "Node | None":
        """The member `name` of an object, or None where it is absent or null."""
        if not isinstance(self.value, dict):
            self.fail("expected an object")
        if self.value.get(name) is None:
            return None
        return self.field(name)

    def members(self) -> list[str]:
        """The names of an object's members."""
        if not isinstance(self.value, dict):
            self.fail("expected an object")
        return list(self.value)

    def only(self, *names: str) -> None:
        """Refuse members other than `names`: a misspelt setting must not be ignored in silence."""
        if not isinstance(self.value, dict):
            self.fail("expected an object")
        unknown = sorted(set(self.value) - set(names))
        if unknown:
            self.fail(f"unknown field {unknown[0]!r}; known are {', '.join(sorted(names))}")

    def items(self) -> Iterator["Node"]:
        """The elements of an array."""
        if not isinstance(self.value, list):
            self.fail("expected an array")
        for index, value in enumerate(self.value):
            yield Node(self.file, f"{self.path}[{index}]", value)

    def text(self) -> str:
        """The value as a string."""
        if not isinstance(self.value, str):
            self.fail(f"expected text, found {_shown(self.value)}")
        return self.value

    def integer(self, minimum: int | None = None) -> int:
        """The value as an integer of 64 bits, at least `minimum`; neither 1.0 nor true is one."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self.fail(f"expected an integer, found {_shown(self.value)}")
        if abs(self.value) > _LARGEST:
            self.fail(f"expected an integer of at most {_LARGEST}, found {_shown(self.value)}")
        if minimum is not None and self.value < minimum:
            self.fail(f"expected at least {minimum}, found {self.value}")
        return self.value

    def number(self, minimum: float | None = None) -> float:
        """The value as a finite number, at least `minimum`."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            self.fail(f"expected a number, found {_shown(self.value)}")
        try:
            value = float(self.value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            self.fail("expected a finite number")
        if minimum is not None and value < minimum:
            self.fail(f"expected at least {minimum:g}, found {value:g}")
        return value


def check_header(root: Node, expected_format: str, newest_version: int) -> int:
    """Return the schema version of a file of `expected_format`.

    Raises:
        FileFormatError: another format, or a version newer than this tool knows.
    """
    found = root.field("format").text()
    if found != expected_format:
        raise FileFormatError(f"{root.file}: this is a file of format {found!r}, not {expected_format!r}")
    version = root.field("schema_version").integer(minimum=1)
    if version > newest_version:
        raise FileFormatError(
            f"{root.file}: written with schema version {version}, this tool reads up to {newest_version}; "
            "upgrade energyopt"
        )
    return version


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or a very deep value
        return "a value too long to show"
    return text if len(text) <= 40 else text[:37] + "..."
