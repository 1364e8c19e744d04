"""The description of a job's pipeline, as given by `pipeline.toml` and command-line flags."""

import math
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from energyopt.schemas.errors import EnergyoptError, FileFormatError
from energyopt.schemas.files import read_text
from energyopt.schemas.nodes import Node

MOST = 1_000_000  # stages, microbatches, chunks or GPUs of a degree
LONGEST_S = 1e6  # twelve days for one transfer or one iteration: beyond any job, and sums stay exact enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """How a job runs one iteration.

    `schedule` is a name (`gpipe`, `1f1b`, `interleaved-1f1b`, `zb-h1`) or `csv:` and the name of the file
    that gave it. `p2p_time_s` is added to every dependency between two stages, `fixed_time_s` to every
    iteration (optimizer step, gradient synchronisation), at wait power.
    """

    stages: int
    microbatches: int
    schedule: str = "1f1b"
    chunks_per_stage: int = 1
    tensor_parallel: int = 1
    context_parallel: int = 1
    data_parallel: int = 1
    p2p_time_s: float = 0.0
    fixed_time_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("stages", "microbatches", "chunks_per_stage", *DEGREES):
            if getattr(self, name) < 1:
                raise EnergyoptError(f"{name} must be at least 1, not {getattr(self, name)}")
            if getattr(self, name) > MOST:
                raise EnergyoptError(f"{name} must be at most {MOST}, not {getattr(self, name):.6g}")
        for name in ("p2p_time_s", "fixed_time_s"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise EnergyoptError(f"{name} must be a finite time of at least 0 s, not {value}")
            if value > LONGEST_S:
                raise EnergyoptError(f"{name} must be at most {LONGEST_S:g} s, not {value:g}")

    def to_json(self) -> dict[str, Any]:
        """The members of the `pipeline` object in plan and frontier files."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


DEGREES = ("tensor_parallel", "context_parallel", "data_parallel")
_INTEGERS = ("stages", "microbatches", "chunks_per_stage", *DEGREES)
_TIMES = ("p2p_time_s", "fixed_time_s")


def pipeline_settings(node: Node) -> dict[str, Any]:
    """The settings present in a parsed object, type-checked; unknown names are refused."""
    node.only(*_INTEGERS, *_TIMES, "schedule")
    found: dict[str, Any] = {}
    for name in _INTEGERS:
        if (member := node.optional(name)) is not None:
            found[name] = member.integer(minimum=1)
    for name in _TIMES:
        if (member := node.optional(name)) is not None:
            found[name] = member.number(minimum=0.0)
    if (member := node.optional("schedule")) is not None:
        found["schedule"] = member.text()
    return found


def pipeline_from_json(node: Node) -> Pipeline:
    """The `pipeline` object of a plan or frontier file."""
    settings = pipeline_settings(node)
    for name in ("stages", "microbatches", "schedule"):
        if name not in settings:
            node.field(name).fail("expected a value, found null")
    return Pipeline(**settings)


def read_pipeline_toml(path: Path) -> dict[str, Any]:
    """The settings of a `pipeline.toml`; flags may add the missing ones.

    Raises:
        FileFormatError: not TOML, or a field that is unknown or of the wrong type.
    """
    try:
        parsed = tomllib.loads(read_text(path))
    except (
        ValueError,
        RecursionError,
    ) as error:  # also integers of thousands of digits, thousands of brackets
        raise FileFormatError(f"{path}: not TOML: {error}") from error
    return pipeline_settings(Node(path, "$", parsed))


def same_job(left: Pipeline, right: Pipeline) -> str | None:
    """The first setting in which two jobs differ, as text, or None where plans for them may be compared."""
    for field in fields(Pipeline):
        one, other = getattr(left, field.name), getattr(right, field.name)
        if field.name not in _TIMES and one != other:
            return f"{field.name}: {one} and {other}"
    return None
