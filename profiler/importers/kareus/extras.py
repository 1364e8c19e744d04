"""What runs outside the partitions: embedding, output head and loss, a CSV file for each and clock.

They were measured on the whole microbatch. The backward of the embedding counts twice, as in the artifact: its
earlier profiler ran that backward twice in each step that it timed, and its composition added the step once; the
present one runs it once, and the composition adds it twice. Either way a microbatch, of two nanobatches, pays for
two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path

from energyopt.profiler.importers import units
from energyopt.profiler.importers.csvtable import Cell, read_records
from energyopt.profiler.importers.kareus.plausible import implausible
from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.ops import OpKind

FOLDER = "nonpartition"

_TIME, _TOTAL, _PER_RANK = "time (s)", "total_energy (j)", "per_rank_energy (j)"
_EQUAL = 1e-6  # relative: the total was divided by the number of ranks, and both were written in full


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """One thing that is measured besides the partitions.

    file: the name of its files, without `_energy.csv`.
    count: how often it runs in its operation.
    is_first: it belongs to the first stage; otherwise to the last.
    """

    file: str
    partition: str
    kind: OpKind
    count: int
    is_first: bool


EXTRAS = (
    Extra(file="preprocess", partition="embedding", kind=OpKind.FORWARD, count=1, is_first=True),
    Extra(file="postprocess", partition="head", kind=OpKind.FORWARD, count=1, is_first=False),
    Extra(file="loss", partition="loss", kind=OpKind.FORWARD, count=1, is_first=False),
    Extra(file="preprocess_backward", partition="embedding", kind=OpKind.BACKWARD, count=2, is_first=True),
    Extra(file="postprocess_backward", partition="head", kind=OpKind.BACKWARD, count=1, is_first=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """Time and energy of one GPU, the mean of so many rows of a file."""

    time_s: float
    energy_j: float
    rows: int


Means = dict[int, Mean]  # by clock in MHz


def read_extras(folder: Path, highest_w: float, gpus: int) -> dict[str, Means]:
    """The means of each of `EXTRAS`, by the name of its files; empty where there are none.

    highest_w: the highest mean power that a reading can have, W.
    gpus: that share a stage, which a file's total is the energy of.

    Raises:
        FileFormatError: a file that is damaged, or a value that cannot be; names file, line and column.
    """
    found: dict[str, Means] = {extra.file: {} for extra in EXTRAS}
    for clock, path in _clock_folders(folder / FOLDER):
        for extra in EXTRAS:
            file = path / f"{extra.file}_energy.csv"
            if file.exists():
                found[extra.file][clock] = _mean(file, highest_w, gpus)
    return found


def unused_folders(folder: Path) -> list[str]:
    """Folders beside those of the clocks, which nothing is read from."""
    known = {path for _, path in _clock_folders(folder / FOLDER)}
    return [path.name for path in _subfolders(folder / FOLDER) if path not in known]


def _subfolders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _clock_folders(folder: Path) -> list[tuple[int, Path]]:
    found = []
    for path in _subfolders(folder):
        if path.name.isascii() and path.name.isdigit() and len(path.name) < 10:
            if problem := units.implausible_clock(float(path.name)):
                raise FileFormatError(f"{path}: the folder's name is {problem}")
            found.append((int(path.name), path))
    return found


def _mean(path: Path, highest_w: float, gpus: int) -> Mean:
    records = read_records(path, (_TIME, _TOTAL, _PER_RANK), lambda _: False)
    times = [record[_TIME].positive() for record in records]
    energies = [_energy_j(record, highest_w, gpus) for record in records]
    return Mean(time_s=_average(times), energy_j=_average(energies), rows=len(records))


def _energy_j(record: dict[str, Cell], highest_w: float, gpus: int) -> float:
    """The energy of one GPU, once it fits the total and the time."""
    own, total = record[_PER_RANK].positive(), record[_TOTAL].positive()
    ranks = total / own
    if abs(ranks - gpus) > _EQUAL * gpus:
        record[_PER_RANK].fail(
            f"not one GPU's part of the total, {total:g} J: that would be {ranks:.6g} ranks, but the job has "
            f"{gpus} GPU(s) per stage (tp x cp)"
        )
    if problem := implausible(record[_TIME].positive(), own, highest_w):
        record[_PER_RANK].fail(problem)
    return own


def _average(values: Sequence[float]) -> float:
    return fsum(values) / len(values)
