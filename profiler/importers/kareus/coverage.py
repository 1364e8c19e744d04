"""At which clocks each partition and each file beside them was measured, and at which it was not."""

from collections.abc import Mapping
from dataclasses import dataclass

from energyopt.profiler.importers.kareus.extras import EXTRAS, FOLDER, Means
from energyopt.profiler.importers.kareus.job import Job
from energyopt.profiler.importers.kareus.logs import NAME
from energyopt.profiler.importers.kareus.windows import Chosen
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKind

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCoverage:
    """What was measured of one partition, or of one thing outside the partitions.

    partition: its name, or the way to its files from the job's folder.
    configurations: distinct windows and SMs over all clocks.
    missing_clocks_mhz: clocks that others were measured at, and this one was not.
    """

    partition: str
    op: OpKind
    clocks: int
    configurations: int
    lowest_mhz: int
    highest_mhz: int
    missing_clocks_mhz: tuple[int, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Everything that is absent, one text each."""
        return tuple(f"{self.partition} at {clock} MHz" for clock in self.missing_clocks_mhz)


def coverage(
    job: Job, partitions: Mapping[str, Chosen], extras: Mapping[str, Means]
) -> tuple[PartitionCoverage, ...]:
    """How much is there of each partition, in the layout's order, and then of each thing outside them.

    Raises:
        ProfileError: nothing at all was measured of one of them, so that operations would seem too cheap.
    """
    own = {name: chosen.log.clocks_mhz for name, chosen in partitions.items()}
    own |= {extra.file: frozenset(extras[extra.file]) for extra in EXTRAS}
    if lacking := [_way(name, partitions) for name, clocks in own.items() if not clocks]:
        raise ProfileError(
            f"{job.folder}: nothing was measured of {', '.join(lacking)}; operations without it would seem "
            "too cheap, so it must be there"
        )
    everywhere = frozenset().union(*own.values())
    kinds = _kinds(job) | {extra.file: extra.kind for extra in EXTRAS}
    return tuple(
        PartitionCoverage(
            partition=_way(name, partitions),
            op=kinds[name],
            clocks=len(clocks),
            configurations=_configurations(partitions[name]) if name in partitions else 1,
            lowest_mhz=min(clocks),
            highest_mhz=max(clocks),
            missing_clocks_mhz=tuple(sorted(everywhere - clocks)),
        )
        for name, clocks in own.items()
    )


def incomplete(covered: tuple[PartitionCoverage, ...]) -> str | None:
    """Which measurements are absent, and how many; None where every clock is everywhere."""
    missing = [text for one in covered for text in one.missing]
    if not missing:
        return None
    more = f"; and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    holed = sum(1 for one in covered if one.missing)
    return (
        f"clocks are missing in {holed} of {len(covered)} partitions and files: "
        f"{'; '.join(missing[:_SHOWN])}{more}"
    )


def missing_logs(job: Job) -> list[str]:
    """Logs of the layout that are not there."""
    layout = job.layout
    return [
        f"{one.name}/{NAME}"
        for one in layout.forward + layout.backward
        if not (job.folder / one.name / NAME).exists()
    ]


def _kinds(job: Job) -> dict[str, OpKind]:
    forward = {one.name: OpKind.FORWARD for one in job.layout.forward}
    return forward | {one.name: OpKind.BACKWARD for one in job.layout.backward}


def _configurations(chosen: Chosen) -> int:
    return len({one.config for one in chosen.log.measured})


def _way(name: str, partitions: Mapping[str, Chosen]) -> str:
    return name if name in partitions else f"{FOLDER}/{name}"
