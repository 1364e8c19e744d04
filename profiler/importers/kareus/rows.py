"""A profile's rows, of level `partition`, for every stage."""

from collections.abc import Iterator, Mapping, Sequence

from energyopt.applier.kareus.layouts import NANOBATCHES
from energyopt.profiler.importers.kareus.extras import EXTRAS, Means
from energyopt.profiler.importers.kareus.job import Job
from energyopt.profiler.importers.kareus.logs import Measured
from energyopt.profiler.importers.kareus.windows import Chosen
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import Execution
from energyopt.schemas.profile import EnergySource, Level, ProfileRow


def rows_of(
    job: Job, partitions: Mapping[str, Chosen], extras: Mapping[str, Means]
) -> tuple[ProfileRow, ...]:
    """The rows of every stage: what its layers run, and on the first and the last what runs outside them."""
    return tuple(
        row
        for stage, layers in enumerate(job.layers_per_stage)
        for kind in (OpKind.FORWARD, OpKind.BACKWARD)
        for row in (
            *_layer_rows(job, stage, layers, kind, partitions),
            *_extra_rows(job, stage, kind, extras),
        )
    )


def less_than_waiting(rows: Sequence[ProfileRow], wait_power_w: float) -> list[str]:
    """A warning where rows use less energy than waiting for as long would, which effective energies turn on."""
    effective = [(row.energy_j - wait_power_w * row.time_s, row) for row in rows]
    negative = [pair for pair in effective if pair[0] < 0]
    if not negative:
        return []
    worst_j, row = min(negative, key=lambda pair: pair[0])
    return [
        f"{len(negative)} of {len(rows)} rows use less energy than waiting for as long would "
        f"({wait_power_w:g} W); worst: {row.partition} at {row.sm_clock_mhz} MHz, {worst_j:.4g} J; "
        "is the wait power that of this GPU?"
    ]


def _layer_rows(
    job: Job, stage: int, layers: int, kind: OpKind, partitions: Mapping[str, Chosen]
) -> Iterator[ProfileRow]:
    for name, one in job.layout.runs(kind, recompute=job.recompute):
        for measured in partitions[one.name].log.measured:
            yield _row(stage, kind, name, layers * one.per_layer, measured)


def _row(stage: int, kind: OpKind, name: str, count: int, measured: Measured) -> ProfileRow:
    config = measured.config.partition_config
    return ProfileRow(
        level=Level.PARTITION,
        stage=stage,
        chunk=0,
        op=kind,
        partition=name,
        count=count,
        execution=str(config.execution),
        comm_launch=config.comm_launch,
        comm_sms=config.comm_sms,
        nanobatches=NANOBATCHES,
        sm_clock_mhz=measured.sm_clock_mhz,
        time_s=measured.time_s,
        energy_j=measured.energy_j,
        energy_source=EnergySource.IMPORTED,
    )


def _extra_rows(job: Job, stage: int, kind: OpKind, extras: Mapping[str, Means]) -> Iterator[ProfileRow]:
    """One stage alone is both the first and the last."""
    is_here = {True: stage == 0, False: stage == len(job.layers_per_stage) - 1}
    for extra in EXTRAS:
        if extra.kind is not kind or not is_here[extra.is_first]:
            continue
        for clock, mean in sorted(extras[extra.file].items()):
            yield ProfileRow(
                level=Level.PARTITION,
                stage=stage,
                chunk=0,
                op=kind,
                partition=extra.partition,
                count=extra.count,
                execution=str(Execution.SEQUENTIAL),
                sm_clock_mhz=clock,
                time_s=mean.time_s,
                energy_j=mean.energy_j,
                samples=mean.rows,
                energy_source=EnergySource.IMPORTED,
            )
