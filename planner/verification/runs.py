"""A run's iterations as arrays: I iterations in rising order, R ranks, S stages.

The time of an iteration is that of its slowest rank, a stage's time that of its slowest rank. Energies are sums
over distinct boards: two ranks on one board read the same counter, so the first of them speaks for it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from energyopt.planner.arrays import Flags, Floats, Ints
from energyopt.schemas.errors import FileFormatError, NotComparableError
from energyopt.schemas.telemetry import Mode, Telemetry, TelemetryMetadata

NONE_RUN = -1
"""In `Run.alternative`: no rank set clocks."""
MIXED = -2
"""In `Run.alternative`: ranks ran different plans."""
STALL = 1.05
"""An iteration that takes more than this times the median is called a stall."""
WARM_UP = 1
"""How many recorded iterations are left out at a run's start unless told otherwise: caches are cold, memory is
still being taken, and libraries choose their kernels."""

_WHOLE = 0.5  # an iteration shorter than this times the median is none: an evaluation, or the end of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A telemetry and the file that it came from."""

    file: str
    telemetry: Telemetry


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """The complete iterations of a telemetry.

    ranks: how many there are. boards: of each stage, how many distinct GPUs `stage_energy_j` covers; an energy is
        NaN where any of them has no reading. without_energy: ranks whose GPU gave none at all. observers: ranks
        that set no clocks.
    incomplete: iterations left out since a rank lacks them. cut_short: those left out since they are no whole ones.
    """

    metadata: TelemetryMetadata
    numbers: Ints  # [I], as the run counts them
    alternative: Ints  # [I]
    time_s: Floats  # [I]
    stage_time_s: Floats  # [I, S]
    stage_energy_j: Floats  # [I, S]
    ranks: int
    boards: tuple[int, ...]
    without_energy: tuple[int, ...]
    observers: tuple[int, ...]
    incomplete: int
    cut_short: int

    @property
    def unread(self) -> tuple[int, ...]:
        """The stages of which no board gave a reading."""
        return tuple(stage for stage, boards in enumerate(self.boards) if not boards)

    @property
    def gpus(self) -> int:
        """How many distinct boards the energies cover."""
        return sum(self.boards)

    @property
    def energy_j(self) -> Floats:
        """Of all boards together, [I]; NaN where any of them, or all, gave no reading."""
        having = [stage for stage, boards in enumerate(self.boards) if boards]
        total: Floats = self.stage_energy_j[:, having].sum(axis=1)
        return total if having else np.full(len(self.numbers), np.nan)

    def of(self, alternative: int) -> Flags:
        """Which iterations ran this alternative."""
        return np.equal(self.alternative, alternative)

    def typical(self, chosen: Flags) -> Flags:
        """The chosen iterations that did not stall, by the chosen ones' median time."""
        return np.asarray(chosen & (self.time_s <= STALL * np.median(self.time_s[chosen])))


def read_run(
    telemetry: Telemetry,
    file: str,
    skip: int = 0,
    *,
    every_rank: bool = True,
    mute: Collection[int] = (),
) -> Run:
    """Arrange a telemetry's iterations; the first `skip` complete ones are left out.

    A board whose readings are all 0 J gave none: a GPU in use draws power, so its counter stands still.
    every_rank: refuse a run of which ranks are missing; without it, those that are there make the run.
    mute: ranks whose energies are not to count.

    Raises:
        NotComparableError: a rank is missing, or no iteration is left.
        FileFormatError: an iteration stands twice for a rank, or a rank on two stages.
    """
    rows = telemetry.iterations
    stage_of = _stages_of_ranks(rows, file)
    if every_rank:
        _check_ranks(telemetry.metadata, file, stage_of)
    numbers, cells = _cells(rows, file, sorted(stage_of))
    shape = (len(numbers), len(stage_of))
    time_s, energy_j, asked = (
        _matrix(rows[name], cells, shape) for name in ("time_s", "energy_j", "alternative")
    )
    silent = ~(energy_j > 0).any(axis=0) | np.isin(sorted(stage_of), list(mute))
    energy_j[:, silent] = np.nan
    complete: Ints = np.flatnonzero(np.asarray(np.isfinite(time_s)).all(axis=1))
    whole = _whole(complete, time_s)
    kept = whole[skip:]
    if not len(kept):
        raise NotComparableError(
            f"{file}: no iteration to look at: {len(whole)} of {len(numbers)} are there from every rank, "
            f"{min(skip, len(whole))} of these skipped"
        )
    found = (time_s[kept], energy_j[kept], asked[kept])
    left_out = (len(numbers) - len(complete), len(complete) - len(whole))
    return _run(telemetry.metadata, stage_of, numbers[kept], found, left_out)


def _run(
    metadata: TelemetryMetadata,
    stage_of: Mapping[int, int],
    numbers: Ints,
    found: tuple[Floats, Floats, Floats],
    left_out: tuple[int, int],
) -> Run:
    time_s, energy_j, asked = found
    ranks = sorted(stage_of)
    places = [
        [place for place, rank in enumerate(ranks) if stage_of[rank] == stage]
        for stage in range(metadata.pipeline.stages)
    ]
    speaking = _speaking(metadata, ranks, energy_j)
    boards = [[place for place in one if place in speaking] for one in places]
    modes = {gpu.rank: gpu.mode for gpu in metadata.gpus}
    observers = [place for place, rank in enumerate(ranks) if modes.get(rank) is not Mode.APPLY]
    silent = np.flatnonzero(~np.logical_or.reduce(np.isfinite(energy_j), axis=0))
    return Run(
        metadata=metadata,
        numbers=numbers,
        alternative=_alternatives(np.delete(asked, observers, axis=1)),
        time_s=time_s.max(axis=1),
        stage_time_s=np.column_stack([time_s[:, one].max(axis=1, initial=-np.inf) for one in places]),
        stage_energy_j=np.column_stack([_sum(energy_j[:, one]) for one in boards]),
        ranks=len(ranks),
        boards=tuple(len(one) for one in boards),
        without_energy=tuple(ranks[place] for place in silent.tolist()),
        observers=tuple(ranks[place] for place in observers),
        incomplete=left_out[0],
        cut_short=left_out[1],
    )


def _whole(complete: Ints, time_s: Floats) -> Ints:
    """Those of the complete iterations that are no fragments."""
    if not len(complete):
        return complete
    took_s = time_s[complete].max(axis=1)
    whole: Ints = complete[(took_s >= _WHOLE * np.median(took_s)) & (took_s > 0)]
    return whole


def _sum(energy_j: Floats) -> Floats:
    """Over boards; NaN where there is none, or one without a reading."""
    return energy_j.sum(axis=1) if energy_j.shape[1] else np.full(len(energy_j), np.nan)


def _stages_of_ranks(rows: pa.Table, file: str) -> dict[int, int]:
    pairs = rows.group_by(["rank", "stage"], use_threads=False).aggregate([]).to_pydict()
    found = dict(zip(pairs["rank"], pairs["stage"], strict=True))
    if len(found) < len(pairs["rank"]):
        raise FileFormatError(f"{file}: a rank stands on two stages")
    return found


def _check_ranks(metadata: TelemetryMetadata, file: str, stage_of: Mapping[int, int]) -> None:
    missing = [rank for rank in range(metadata.world_size) if rank not in stage_of]
    if missing:
        raise NotComparableError(
            f"{file}: rank {missing[0]} of {metadata.world_size} has no iteration ({len(missing)} missing in all); "
            "merge the shards of every rank"
        )
    stages = metadata.pipeline.stages
    if len(stage_of) > metadata.world_size or set(stage_of.values()) != set(range(stages)):
        raise NotComparableError(
            f"{file}: {len(stage_of)} ranks on stages {sorted(set(stage_of.values()))}, but the run has "
            f"{metadata.world_size} ranks and {stages} stages"
        )


def _cells(rows: pa.Table, file: str, ranks: Sequence[int]) -> tuple[Ints, Ints]:
    """The iterations' numbers, and where each row goes in a matrix of iterations and ranks, laid flat."""
    place = np.searchsorted(np.array(ranks), rows["rank"].to_numpy())
    numbers, index = np.unique(rows["iteration"].to_numpy(), return_inverse=True)
    cells = index * len(ranks) + place
    if len(np.unique(cells)) < len(cells):
        twice = int(np.argmax(np.bincount(cells) > 1))
        iteration, rank = numbers[twice // len(ranks)], ranks[twice % len(ranks)]
        raise FileFormatError(f"{file}: iteration {iteration} of rank {rank} stands there twice")
    return numbers, cells


def _matrix(column: pa.ChunkedArray, cells: Ints, shape: tuple[int, int]) -> Floats:
    """A column as [I, R], NaN where it is null or the row is not there."""
    found = np.full(shape[0] * shape[1], np.nan)
    found[cells] = column.cast("float64").to_numpy()  # nulls become NaN
    return found.reshape(shape)


def _speaking(metadata: TelemetryMetadata, ranks: Sequence[int], energy_j: Floats) -> set[int]:
    """The places of the ranks whose energies count: one for each board that gave any."""
    measured: Flags = np.logical_or.reduce(np.isfinite(energy_j), axis=0)
    uuids = {gpu.rank: gpu.uuid for gpu in metadata.gpus}
    seen: dict[str, int] = {}
    for place, rank in enumerate(ranks):
        if measured[place]:
            seen.setdefault(uuids.get(rank) or f"rank {rank}", place)
    return set(seen.values())


def _alternatives(asked: Floats) -> Ints:
    """What each iteration ran, by the ranks that set clocks."""
    if not asked.shape[1]:
        return np.full(len(asked), NONE_RUN)
    first = asked[:, 0]
    same = np.equal(asked, first[:, None]).all(axis=1)
    none = np.isnan(asked).all(axis=1)
    return np.where(none, NONE_RUN, np.where(same, np.nan_to_num(first), MIXED)).astype(np.int64)
