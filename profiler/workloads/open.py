"""A workload from what the command line names: a preset, a file, or a function."""

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from energyopt.profiler.workloads.architecture import Architecture, Position
from energyopt.profiler.workloads.config_file import read_config_file
from energyopt.profiler.workloads.interface import Workload
from energyopt.profiler.workloads.job import JobShape, job_shape
from energyopt.profiler.workloads.presets import PRESETS
from energyopt.profiler.workloads.transformer import transformer_workload
from energyopt.profiler.workloads.user import user_workload
from energyopt.schemas.errors import WorkloadError

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def load_workload(spec: str, settings: Mapping[str, Any]) -> Workload:
    """The workload that `spec` names.

    Args:
        spec: the name of a preset, the path of a `.toml` or `.json` file or of a folder with a `config.json`, or
            `module:function`.
        settings: what flags set, under the names of `JobShape`'s fields; None is not set. They override a file's.

    Raises:
        WorkloadError: no such workload, or settings that do not fit it.
        FileFormatError: the file cannot be read.
    """
    if spec in PRESETS:
        return transformer_workload(PRESETS[spec], job_shape(settings))
    if os.path.isdir(spec):  # noqa: PTH112 - unlike Path's, it takes any text
        return _from_file(_config_in(Path(spec)), settings)
    if Path(spec).suffix in {".toml", ".json"}:
        return _from_file(Path(spec), settings)
    if names_function(spec):
        return _from_function(spec, settings)
    close = difflib.get_close_matches(spec, PRESETS, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}? " if close else ""
    raise WorkloadError(
        f"unknown workload {spec!r}: {hint}presets are {', '.join(PRESETS)}; "
        "otherwise give a .toml or .json file, a folder with a config.json, or module:function"
    )


def names_function(spec: str) -> bool:
    """Whether a workload's name means a user's function: neither a file, a folder nor a preset looks like one."""
    return _FUNCTION.fullmatch(spec) is not None and not os.path.isdir(spec)  # noqa: PTH112


def _config_in(folder: Path) -> Path:
    path = folder / "config.json"
    if not path.is_file():
        raise WorkloadError(
            f"the folder {folder} holds no config.json; give the file that describes the model"
        )
    return path


def _from_file(path: Path, settings: Mapping[str, Any]) -> Workload:
    architecture, job = read_config_file(path)
    merged = job | _given(settings)
    if "sequence_length" not in merged:
        _check_default_length(architecture)
    return transformer_workload(architecture, job_shape(merged))


def _check_default_length(architecture: Architecture) -> None:
    """A length that nobody gave is not one to blame the user for."""
    limit, default = architecture.max_position_embeddings, JobShape().sequence_length
    if architecture.position is Position.LEARNED and limit is not None and default > limit:
        raise WorkloadError(
            f"{architecture.name} has {limit} learned positions and the default sequence length is {default}: "
            f"give --sequence-length {limit} or less"
        )


def _from_function(spec: str, settings: Mapping[str, Any]) -> Workload:
    if given := sorted(_given(settings)):
        raise WorkloadError(
            f"{', '.join(given)} cannot be set for {spec}: the function decides; leave it out"
        )
    return user_workload(spec)


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}
