"""Which job a folder is of: `<model>/cp1-tp8-bs8-seq4096`."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from energyopt.applier.kareus.layouts import Layout, layout_for
from energyopt.profiler.importers.provenance import printable
from energyopt.schemas.errors import EnergyoptError, FileFormatError

_NAME = re.compile(
    r"cp(?P<cp>[1-9]\d{0,5})[-_]tp(?P<tp>[1-9]\d{0,5})[-_]m?bs(?P<microbatch_size>[1-9]\d{0,8})"
    r"[-_]seq(?P<sequence_length>[1-9]\d{0,8})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job that a folder holds measurements of.

    layers_per_stage: layers of the model on each pipeline stage.
    recompute: a backward runs the forward's partitions again before its own.
    workload: what was measured, with the keys of `provenance.WORKLOAD_KEYS` and those that our own profiles add.
    """

    folder: Path
    layers_per_stage: tuple[int, ...]
    recompute: bool
    workload: dict[str, str | int | float]

    @property
    def layout(self) -> Layout:
        """The partitions of a layer."""
        return layout_for(int(self.workload["cp"]))

    @property
    def gpus_per_stage(self) -> int:
        """GPUs that share a stage."""
        return int(self.workload["tp"]) * int(self.workload["cp"])


def job_of(
    folder: Path, layers_per_stage: Sequence[int], *, recompute: bool, told: Mapping[str, str | int]
) -> Job:
    """The job of a folder, by its name and its parent's; what the user told goes first.

    Raises:
        FileFormatError: there is no such folder.
        EnergyoptError: the name does not give the degrees, and they were not told; or a stage without layers.
    """
    if not folder.is_dir():
        raise FileFormatError(f"{folder} is no folder; give the one of a job, such as cp1-tp8-bs8-seq4096")
    workload: dict[str, str | int | float] = {**_named(folder), **told}
    if lacking := [key for key in ("tp", "cp") if key not in workload]:
        wanted = " ".join(f"--workload {key}=N" for key in lacking)
        raise EnergyoptError(
            f"{folder}: its name is not like cp1-tp8-bs8-seq4096 and does not give {' and '.join(lacking)}; "
            f"add {wanted}"
        )
    if not layers_per_stage or min(layers_per_stage) < 1:
        shown = ",".join(map(str, layers_per_stage))
        raise EnergyoptError(f"every stage needs at least 1 layer, but the layers per stage are {shown}")
    settings = {
        "layers_per_stage": ",".join(map(str, layers_per_stage)),
        "recompute": "full" if recompute else "none",
    }
    return Job(
        folder=folder,
        layers_per_stage=tuple(layers_per_stage),
        recompute=recompute,
        workload={**workload, **settings},
    )


def _named(folder: Path) -> dict[str, str | int | float]:
    """What the names of a folder and its parent say; nothing where the folder's is another."""
    path = Path(os.path.abspath(folder))  # noqa: PTH100 - `.` has no name, and links are kept as the user named them
    found = _NAME.fullmatch(path.name)
    if found is None:
        return {}
    named: dict[str, str | int | float] = {key: int(value) for key, value in found.groupdict().items()}
    if path.parent.name:
        named["model"] = printable(path.parent.name)
    return named
