"""The shards of all ranks as one telemetry file."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from energyopt.planner.telemetry.shards import Shard, is_shard, read_shard
from energyopt.schemas.columns import arrow_table
from energyopt.schemas.errors import FileFormatError, NotComparableError
from energyopt.schemas.telemetry import (
    ARROW_SCHEMA,
    Gpu,
    Mode,
    Telemetry,
    TelemetryMetadata,
    metadata_from_header,
)

_SAME = ("plan_sha256", "profile_sha256", "world_size", "framework", "timer", "sampled_every", "pipeline")
_START_TOGETHER_S = 3600.0
"""How far apart ranks of one run may have started: they wait for one another, for minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRun:
    """A run, and what its user should know of it."""

    telemetry: Telemetry
    warnings: tuple[str, ...]


def find_shards(paths: Sequence[Path]) -> list[Path]:
    """The shards that are meant: files as they are, of folders all shards that they hold.

    Raises:
        FileFormatError: a folder without shards.
    """
    found: list[Path] = []
    for path in paths:
        inside = sorted(filter(is_shard, path.glob("rank*.jsonl"))) if path.is_dir() else [path]
        if not inside:
            raise FileFormatError(f"{path}: no telemetry shards (rank*.jsonl) in this folder")
        found += inside
    return found


def merge_shards(paths: Sequence[Path]) -> MergedRun:
    """Join the shards of one run.

    A rank that was restarted has several; the last one counts, for that is what all ranks ran to the end. One that
    cannot be read, as a killed rank may leave it, is left out.

    Raises:
        FileFormatError: none of the shards can be read.
        NotComparableError: they are of different runs.
    """
    every, unreadable = _read(paths)
    shards, superseded = _last_parts(every)
    for shard in shards[1:]:
        _check_same(shards[0], shard)
    apart = list(_check_starts(shards, restarted=len(every) > len(shards)))
    columns: dict[str, list[Any]] = {
        name: [value for shard in shards for value in shard.columns[name]] for name in ARROW_SCHEMA.names
    }
    try:
        table = arrow_table(columns, ARROW_SCHEMA)
    except (OverflowError, ValueError, TypeError) as error:
        raise FileFormatError(f"{paths[0]} and the others: a number that cannot be: {error}") from error
    telemetry = Telemetry(metadata=_metadata(shards), table=table)
    warnings = (*unreadable, *_warnings(shards), *superseded, *apart)
    return MergedRun(telemetry=telemetry, warnings=warnings)


def _read(paths: Sequence[Path]) -> tuple[list[Shard], list[str]]:
    """What can be read, and a warning for each other one."""
    shards, warnings = [], []
    error = FileFormatError("no telemetry shards")
    for path in paths:
        try:
            shards.append(read_shard(path))
        except FileFormatError as found:
            error = found
            warnings.append(f"{found}; this shard is left out")
    if not shards:
        raise error
    return shards, warnings


def _last_parts(shards: Sequence[Shard]) -> tuple[list[Shard], list[str]]:
    parts: defaultdict[int, list[Shard]] = defaultdict(list)
    for shard in shards:
        parts[shard.rank].append(shard)
    warnings = []
    for rank, found in sorted(parts.items()):
        found.sort(key=lambda one: (_started(one), one.path.name))
        if len(found) > 1:
            warnings.append(f"rank {rank} was started {len(found)} times; {found[-1].path.name} is used")
    return [parts[rank][-1] for rank in sorted(parts)], warnings


def _check_same(first: Shard, other: Shard) -> None:
    for name in _SAME:
        left, right = (one.header.value.get(name) for one in (first, other))
        if left != right:
            raise NotComparableError(
                f"{other.path} and {first.path} are not of one run: {name} is {right} in the one, "
                f"{left} in the other"
            )


def _started(shard: Shard) -> datetime:
    node = shard.header.field("time")
    try:
        found = datetime.fromisoformat(node.text())
    except ValueError:
        node.fail("expected a time such as 2026-01-31T12:00:00+00:00")
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _check_starts(shards: Sequence[Shard], *, restarted: bool) -> Iterator[str]:
    """Refuse ranks that started too far apart to be of one run; where some were restarted, only warn.

    What the launcher calls the run may differ within one too (a heterogeneous Slurm job), so that is a warning.
    """
    first, last = (pick(shards, key=_started) for pick in (min, max))
    apart_s = (_started(last) - _started(first)).total_seconds()
    if apart_s > _START_TOGETHER_S:
        text = f"{last.path} was started {apart_s / 3600:.1f} hours after {first.path}"
        if not restarted:
            raise NotComparableError(f"{text}: they are not of one run; give the shards of one")
        yield f"{text}: that may be another run"
    names = {one.text() for shard in shards if (one := shard.header.optional("run_id")) is not None}
    if len(names) > 1:
        yield f"the launcher's names of the run differ: {', '.join(sorted(names))}; these may be several runs"


def _metadata(shards: Sequence[Shard]) -> TelemetryMetadata:
    reports = tuple(f"rank {shard.rank}: {report}" for shard in shards for report in shard.reports)
    return metadata_from_header(shards[0].header, tuple(_gpu(shard) for shard in shards), reports)


def _gpu(shard: Shard) -> Gpu:
    header, board = shard.header, shard.header.optional("board")

    def of_board(name: str) -> str | None:
        node = None if board is None else board.optional(name)
        return None if node is None else node.text()

    source = header.optional("energy_source")
    return Gpu(
        rank=shard.rank,
        stage=header.field("stage").integer(minimum=0),
        mode=Mode.APPLY if header.field("applied").value is True else Mode.OBSERVE,
        name=of_board("name"),
        uuid=of_board("uuid"),
        host=header.field("host").text(),
        scope=of_board("scope"),
        energy_source=None if source is None else source.text(),
    )


def _warnings(shards: Sequence[Shard]) -> Iterator[str]:
    world = shards[0].header.field("world_size").integer(minimum=1)
    missing = sorted({*range(world)} - {shard.rank for shard in shards})
    if missing:
        shown = ", ".join(map(str, missing[:8])) + (" ..." if len(missing) > 8 else "")
        yield f"{len(missing)} of {world} ranks have no shard here: {shown}"
    for shard in shards:
        if shard.cut_short:
            yield f"{shard.path}: its last line is cut short, as by a kill, and left out"
    boards: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for gpu in (_gpu(shard) for shard in shards):
        if gpu.uuid is not None:
            boards[gpu.host or "", gpu.uuid].append(gpu.rank)
    for (_, uuid), ranks in boards.items():
        if len(ranks) > 1:
            names = ", ".join(map(str, ranks))
            yield f"ranks {names} share {uuid}: each has measured all of its energy, and it counts once"
