"""Schedules from the CSV files of PyTorch's `torch.distributed.pipelining`.

One line per rank, one cell per action: `0F0`, `1I3`, `1W3`, `2B1` or `(3F1;3B0)OVERLAP_F_B`; blank where the
rank idles. Files with communication actions are read as well. Those are passed over: they run beside the
computation, and what they wait for follows from the operations.
"""

import csv
import re
from pathlib import Path
from typing import NamedTuple

from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.files import read_text
from energyopt.schemas.notation import parse_op
from energyopt.schemas.ops import Op, Schedule

_COMMUNICATION = re.compile(r"[0-9]{1,9}((SEND|RECV)_[FB][0-9]{1,9}|UNSHARD|RESHARD|REDUCE_GRAD)")
_VIRTUAL_STAGE = re.compile(r"([0-9]{1,9})[FBIW][0-9]")


class _Cell(NamedTuple):
    column: int  # from 1
    text: str


class _Rank(NamedTuple):
    line: int  # from 1
    cells: list[_Cell]  # of operations alone

    def virtual_stages(self) -> tuple[int, ...]:
        found = {int(name) for cell in self.cells for name in _VIRTUAL_STAGE.findall(cell.text)}
        return tuple(sorted(found))


def read_torch_csv(path: Path) -> Schedule:
    """Read a schedule; a rank's chunks are the virtual stages that its cells name, in ascending order.

    Whether the operations are complete and can run is found when the graph is built.

    Raises:
        FileFormatError: the file cannot be read.
        ScheduleError: a cell that is no action, virtual stages or microbatches that are not numbered 0, 1,
            and so on, or a virtual stage on two ranks; the text names the file and the place.
    """
    ranks = _read_ranks(path)
    placement = tuple(rank.virtual_stages() for rank in ranks)
    orders = tuple(_order(path, stage, rank, placement[stage]) for stage, rank in enumerate(ranks))
    _check_placement(path, ranks, placement)
    return Schedule(
        name=f"csv:{path.name}",
        microbatches=_count_microbatches(path, orders),
        virtual_stages=placement,
        orders=orders,
    )


def _read_ranks(path: Path) -> list[_Rank]:
    reader = csv.reader(read_text(path).splitlines(), strict=True)
    ranks: list[_Rank] = []
    try:
        for row in reader:
            cells = [_Cell(column, text.strip()) for column, text in enumerate(row, start=1)]
            ranks.append(_Rank(reader.line_num, [cell for cell in cells if _is_operation(cell)]))
    except csv.Error as error:
        raise ScheduleError(f"{path}: line {reader.line_num}: {error}") from error
    while ranks and not ranks[-1].cells:
        ranks.pop()
    empty = next((rank.line for rank in ranks if not rank.cells), None)
    if empty is not None or not ranks:
        raise ScheduleError(f"{path}: line {empty or 1}: a rank without operations")
    return ranks


def _is_operation(cell: _Cell) -> bool:
    return cell.text != "" and _COMMUNICATION.fullmatch(cell.text) is None


def _order(path: Path, stage: int, rank: _Rank, virtual_stages: tuple[int, ...]) -> tuple[Op, ...]:
    chunk_of = {virtual: chunk for chunk, virtual in enumerate(virtual_stages)}
    where = f"{path}: line {rank.line}, column "
    return tuple(parse_op(cell.text, stage, chunk_of, f"{where}{cell.column}") for cell in rank.cells)


def _check_placement(path: Path, ranks: list[_Rank], placement: tuple[tuple[int, ...], ...]) -> None:
    line_of: dict[int, int] = {}
    for rank, virtual_stages in zip(ranks, placement, strict=True):
        for virtual in virtual_stages:
            if virtual in line_of:
                lines = f"lines {line_of[virtual]} and {rank.line}"
                raise ScheduleError(f"{path}: virtual stage {virtual} is on two ranks ({lines})")
            line_of[virtual] = rank.line
    _check_numbering(path, "virtual stage", set(line_of))


def _count_microbatches(path: Path, orders: tuple[tuple[Op, ...], ...]) -> int:
    ops = [op for order in orders for op in order]
    found = {op.microbatch for op in ops}
    found |= {op.backward_microbatch for op in ops if op.backward_microbatch is not None}
    _check_numbering(path, "microbatch", found)
    return len(found)


def _check_numbering(path: Path, what: str, found: set[int]) -> None:
    missing = next(number for number in range(len(found) + 1) if number not in found)
    if missing < len(found):
        raise ScheduleError(f"{path}: it names {what} {max(found)} but no {what} {missing}")
