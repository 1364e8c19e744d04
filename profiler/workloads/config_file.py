"""A model and its job from a file: TOML, or the `config.json` that stands beside published weights."""

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from energyopt.profiler.workloads.architecture import Architecture
from energyopt.profiler.workloads.hf_config import read_architecture
from energyopt.profiler.workloads.job import COUNTS
from energyopt.schemas.errors import FileFormatError, WorkloadError
from energyopt.schemas.files import read_json, read_text
from energyopt.schemas.nodes import Node

_TEXTS = ("dtype", "recompute", "attention")
_FLAGS = ("split_backward", "sequence_parallel")
_LISTS = ("layers_per_stage", "comm_sms")
_SETTINGS = (*COUNTS, *_TEXTS, *_FLAGS, *_LISTS)


def read_config_file(path: Path) -> tuple[Architecture, dict[str, Any]]:
    """The architecture, and the job's settings in the table `job`, which may be absent.

    The model is called after its key `name`, else after the file, or its folder for a `config.json`.

    Raises:
        FileFormatError: unreadable, or a key that is unknown, missing or of the wrong type; names file and key.
        WorkloadError: sizes that contradict each other; names the file.
    """
    root = Node(path, "$", read_json(path) if path.suffix == ".json" else _read_toml(path))
    if not isinstance(root.value, dict):
        raise FileFormatError(f"{path}: expected an object with a model's sizes, such as hidden_size")
    job = root.optional("job")
    members = {key: value for key, value in root.value.items() if key != "job"}
    _refuse_misplaced(path, members)
    # the folder's own name, not that of the one a link to the file leads to, as in Hugging Face's cache
    name = path.parent.resolve().name if path.stem == "config" else path.stem
    try:
        architecture = read_architecture(Node(path, "$", members), name)
    except WorkloadError as error:
        raise WorkloadError(f"{path}: {error}") from error
    return architecture, {} if job is None else _job_settings(job)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: not TOML: {error}") from error


def _refuse_misplaced(path: Path, members: dict[str, Any]) -> None:
    """A setting of the job that stands outside its table; `dtype` is also a key of published JSON files."""
    for key in members:
        if key in _SETTINGS and not (key == "dtype" and path.suffix == ".json"):
            raise FileFormatError(f"{path}: {key!r} is a setting of the job; put it into the table 'job'")


def _job_settings(job: Node) -> dict[str, Any]:
    if not isinstance(job.value, dict):
        job.fail("expected an object")
    found: dict[str, Any] = {}
    for key in job.value:
        if key not in _SETTINGS:
            close = get_close_matches(key, _SETTINGS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(_SETTINGS))}"
            job.fail(f"unknown field {key!r}: {hint}")
        node = job.field(key)
        if key in COUNTS:
            found[key] = node.integer(minimum=1)
        elif key in _TEXTS:
            found[key] = node.text()
        elif key in _FLAGS:
            found[key] = _flag(node)
        else:
            found[key] = tuple(item.integer(minimum=0) for item in node.items())
    return found


def _flag(node: Node) -> bool:
    if not isinstance(node.value, bool):
        node.fail(f"expected true or false, found {node.value!r}")
    return bool(node.value)
