"""A model and its job from a file: TOML, or the `config.json` that stands beside published weights."""

import tomllib
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


def read_config_file(path: Path) -> tuple[Architecture, dict[str, Any]]:
    """The architecture, and the job's settings in the table `job`, which may be absent.

    The model is called after its key `name`, else after the file, or its folder for a `config.json`.

    Raises:
        FileFormatError: unreadable, or a key that is unknown, missing or of the wrong type; names file and key.
        WorkloadError: sizes that contradict each other; names the file.
    """
    root = Node(path, "$", read_json(path) if path.suffix == ".json" else _read_toml(path))
    if not isinstance(root.value, dict):
        root.fail("expected an object")
    job = root.optional("job")
    members = {key: value for key, value in root.value.items() if key != "job"}
    name = path.resolve().parent.name if path.stem == "config" else path.stem
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


def _job_settings(job: Node) -> dict[str, Any]:
    job.only(*COUNTS, *_TEXTS, *_FLAGS, *_LISTS)
    found: dict[str, Any] = {}
    for key in job.value:
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
