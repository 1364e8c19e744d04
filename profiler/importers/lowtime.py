"""Lowtime's (and Perseus') stage profiles: CSV with `stage,instruction,frequency,time,energy`.

A column `chunk` (0 if absent) tells the model chunks of a stage apart. Rank columns (`rank` or any `*_rank`) may
stand beside them. Rows of one (stage, chunk, instruction, frequency) with distinct ranks are peers: the stage is as
slow as its slowest peer, for which the others wait at wait power. Energy is kept as the mean per GPU over the
`gpus_per_stage` peers, that wait included. `pp_rank` is the stage itself.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from energyopt.profiler.importers import grid, provenance, units
from energyopt.profiler.importers.csvtable import Cell, read_records
from energyopt.profiler.importers.grid import Peer, Point
from energyopt.profiler.importers.interface import ImportedProfile
from energyopt.profiler.importers.units import EnergyUnit, TimeUnit
from energyopt.schemas.errors import EnergyoptError, ProfileError
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.profile import EnergySource, Level, Profile, ProfileRow
from energyopt.schemas.profile_metadata import DeviceKind, ProfileMetadata

COLUMNS = ("stage", "instruction", "frequency", "time", "energy")

_Unit = TypeVar("_Unit", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Units:
    time: TimeUnit
    energy: EnergyUnit
    highest_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measurement:
    line: int
    point: Point
    peer: Peer
    time_s: float
    energy_j: float


def read_lowtime_csv(
    path: Path,
    *,
    device_name: str,
    wait_power_w: float,
    time_unit: str = "s",
    energy_unit: str = "J",
    power_limit_w: float | None = None,
    workload: Mapping[str, str | int] | None = None,
    strict: bool = True,
) -> ImportedProfile:
    """Read a stage profile; rows are of level `op`, in seconds and joules per GPU.

    Args:
        path: the CSV file; only its name is kept, with a backslash escape for what cannot be printed.
        device_name: the GPU that it was measured on.
        wait_power_w: power of that GPU while it is blocked on a peer, W.
        time_unit: `s`, `ms` or `us`.
        energy_unit: `J`, `mJ`, `uJ` or `kWh`.
        power_limit_w: the board's power limit; a mean power above 1.5 times it is refused.
        workload: what was measured, with the keys of `provenance.WORKLOAD_KEYS`.
        strict: refuse a grid with missing measurements; otherwise warn.

    Raises:
        FileFormatError: a damaged file or a value that cannot be; names file, line, column and value.
        ProfileError: contradicting or missing measurements.
        EnergyoptError: a setting that cannot be.
    """
    provenance.check_device_name(device_name)
    used = _Units(
        time=_unit(TimeUnit, time_unit),
        energy=_unit(EnergyUnit, energy_unit),
        highest_w=units.checked_highest_power_w(wait_power_w, power_limit_w),
    )
    records = read_records(path, COLUMNS, _is_optional)
    ranks = tuple(name for name in records[0] if _is_rank(name) and name != "pp_rank")
    measured = [_measurement(record, ranks, used) for record in records]
    points = _by_peer(path, measured, ranks)
    grid.check_shape(str(path), points)
    covered = grid.coverage(points, ranks)
    gaps = grid.incomplete(covered)
    if gaps and strict:
        raise ProfileError(f"{path}: {gaps}; measure them, or pass --allow-incomplete")
    rows = tuple(_row(point, peers, wait_power_w) for point, peers in sorted(points.items()))
    source = provenance.printable(path.name)
    metadata = ProfileMetadata(
        device_name=device_name,
        device_kind=DeviceKind.IMPORTED,
        wait_power_w=float(wait_power_w),
        gpus_per_stage=covered[0].peers,
        power_limit_w=power_limit_w,
        workload=dict(workload or {}),
        source=source,
    )
    warnings = [f"{source}: {gaps}"] if gaps else []
    warnings += _negative_effective_energy(source, rows, wait_power_w)
    profile = Profile(metadata=metadata, rows=rows)
    return ImportedProfile(profile=profile, coverage=covered, warnings=tuple(warnings))


def _unit(kind: type[_Unit], text: str) -> _Unit:
    if text not in list(kind):
        raise EnergyoptError(f"unknown unit {text!r}; known are {', '.join(kind)} (capitals matter)")
    return kind(text)


def _is_optional(name: str) -> bool:
    return name == "chunk" or _is_rank(name)


def _is_rank(name: str) -> bool:
    return name == "rank" or name.endswith("_rank")


def _measurement(record: dict[str, Cell], ranks: tuple[str, ...], used: _Units) -> _Measurement:
    stage = record["stage"].index()
    chunk = record["chunk"].index() if "chunk" in record else 0
    if "pp_rank" in record and record["pp_rank"].index() != stage:
        record["pp_rank"].fail(f"not the stage of this line, {stage}")
    clock = record["frequency"].number()
    if problem := units.implausible_clock(clock):
        record["frequency"].fail(problem)
    time, energy = record["time"].positive(), record["energy"].positive()
    time_s, energy_j = units.to_seconds(time, used.time), units.to_joules(energy, used.energy)
    if not (math.isfinite(energy_j) and energy_j > 0):
        record["energy"].fail("out of the range of numbers once converted")
    if problem := units.implausible_time(time, used.time):
        record["time"].fail(problem)
    if problem := units.implausible_power(time, used.time, energy, used.energy, used.highest_w):
        record["energy"].fail(problem)
    return _Measurement(
        line=record["stage"].line,
        point=(OpKey(stage, chunk, _kind(record["instruction"])), int(clock)),
        peer=tuple(record[name].index() for name in ranks),
        time_s=time_s,
        energy_j=energy_j,
    )


def _kind(cell: Cell) -> OpKind:
    if cell.text.lower() not in list(OpKind):
        cell.fail(f"no known instruction; known are {', '.join(OpKind)}")
    return OpKind(cell.text.lower())


def _by_peer(
    path: Path, measured: list[_Measurement], ranks: tuple[str, ...]
) -> dict[Point, dict[Peer, _Measurement]]:
    points: dict[Point, dict[Peer, _Measurement]] = {}
    for one in measured:
        peers = points.setdefault(one.point, {})
        if (earlier := peers.get(one.peer)) is not None:
            key, clock = one.point
            peer = f" on {grid.describe_peer(one.peer, ranks)}" if ranks else ", and no column tells ranks"
            what = f"{key} at {clock} MHz{peer}"
            raise ProfileError(f"{path}: lines {earlier.line} and {one.line} both measure {what}; keep one")
        peers[one.peer] = one
    return points


def _row(point: Point, peers: Mapping[Peer, _Measurement], wait_power_w: float) -> ProfileRow:
    key, clock = point
    slowest_s = max(one.time_s for one in peers.values())
    spent_j = math.fsum(one.energy_j + wait_power_w * (slowest_s - one.time_s) for one in peers.values())
    return ProfileRow(
        level=Level.OP,
        stage=key.stage,
        chunk=key.chunk,
        op=key.kind,
        sm_clock_mhz=clock,
        time_s=slowest_s,
        energy_j=spent_j / len(peers),
        energy_source=EnergySource.IMPORTED,
    )


def _negative_effective_energy(name: str, rows: tuple[ProfileRow, ...], wait_power_w: float) -> list[str]:
    effective = [(row.energy_j - wait_power_w * row.time_s, row) for row in rows]
    negative = [(value, row) for value, row in effective if value < 0]
    if not negative:
        return []
    worst_j, row = min(negative, key=lambda pair: pair[0])
    return [
        f"{name}: {len(negative)} of {len(rows)} rows use less energy than waiting for as long would "
        f"({wait_power_w:g} W); worst: {OpKey(row.stage or 0, row.chunk or 0, row.op)} at {row.sm_clock_mhz} MHz, "
        f"{worst_j:.4g} J; is the wait power that of this GPU?"
    ]
