"""The description of a sweep over layouts, as `plan --sweep` reads it from a TOML file."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.files import read_text
from energyopt.schemas.nodes import Node
from energyopt.schemas.pipeline import LONGEST_S, MOST

_Value = TypeVar("_Value", int, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """Which layouts to plan: all combinations of the lists whose sizes divide.

    folder: where the paths of profiles start.
    profiles: as the file names them; one for each tensor and context degree and microbatch size.
    gpus: of the whole job, all replicas together.
    global_batch: sequences of an iteration.
    microbatches: only layouts with one of these numbers; None for any.
    p2p_time_s, fixed_time_s: as in a pipeline; None for what each profile says, or 0.
    """

    folder: Path
    profiles: tuple[str, ...]
    gpus: tuple[int, ...]
    global_batch: int
    stages: tuple[int, ...]
    schedules: tuple[str, ...] = ("1f1b",)
    chunks: tuple[int, ...] = (1,)
    microbatches: tuple[int, ...] | None = None
    p2p_time_s: float | None = None
    fixed_time_s: float | None = None


_NAMES = (
    "profiles", "gpus", "global_batch", "stages", "schedule", "chunks", "microbatches", "p2p_time_s",
    "fixed_time_s",
)  # fmt: skip


def read_sweep_toml(path: Path) -> SweepRequest:
    """The sweep that a file asks for; where a list is expected, one value may stand without brackets.

    Raises:
        FileFormatError: not TOML, or a field that is missing, unknown, of the wrong type or has a value twice.
    """
    try:
        parsed = tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: not TOML: {error}") from error
    root = Node(path, "$", parsed)
    root.only(*_NAMES)
    schedules = root.optional("schedule")
    chunks, microbatches = root.optional("chunks"), root.optional("microbatches")
    return SweepRequest(
        folder=path.parent,
        profiles=_several(root.field("profiles"), _text),
        gpus=_several(root.field("gpus"), _count),
        global_batch=_count(root.field("global_batch")),
        stages=_several(root.field("stages"), _count),
        schedules=("1f1b",) if schedules is None else _several(schedules, _text),
        chunks=(1,) if chunks is None else _several(chunks, _count),
        microbatches=None if microbatches is None else _several(microbatches, _count),
        p2p_time_s=_time_s(root, "p2p_time_s"),
        fixed_time_s=_time_s(root, "fixed_time_s"),
    )


def _several(node: Node, read: Callable[[Node], _Value]) -> tuple[_Value, ...]:
    """One value, or a list of distinct ones."""
    found = tuple(read(item) for item in node.items()) if isinstance(node.value, list) else (read(node),)
    if not found:
        node.fail("expected at least one value")
    if len(set(found)) < len(found):
        node.fail(f"{next(one for one in found if found.count(one) > 1)!r} stands there twice")
    return found


def _text(node: Node) -> str:
    return node.text()


def _count(node: Node) -> int:
    value = node.integer(minimum=1)
    if value > MOST:
        node.fail(f"expected at most {MOST}, found {value}")
    return value


def _time_s(root: Node, name: str) -> float | None:
    node = root.optional(name)
    if node is None:
        return None
    value = node.number(minimum=0.0)
    if value > LONGEST_S:
        node.fail(f"expected at most {LONGEST_S:g} s, found {value:g}")
    return value
