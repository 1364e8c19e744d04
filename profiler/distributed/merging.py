"""Profiles of several ranks as one: a stage is as slow as its slowest rank, and the others wait for it.

Energy is the mean per GPU over the ranks that measured a row, the faster ones' wait included.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from statistics import fmean
from typing import Any

from energyopt.schemas.errors import ProfileError
from energyopt.schemas.profile import Level, Profile, ProfileRow
from energyopt.schemas.profile_metadata import ProfileMetadata

_SAME = (
    "device_name",
    "device_kind",
    "scope",
    "power_limit_w",
    "memory_clock_mhz",
    "gpus_per_stage",
    "workload",
    "source",
)


_SUMS = ("windows", "rejected_windows", "lost_readings", "missed_clock_switches", "kernels_without_number")
_WORST = ("tick_s", "longest_clock_switch_s", "largest_idle_share")
_RATIO = "counter_over_power"
_HALF_WIDTH = "wait_power_half_width_w"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A merged profile, and what its user should know."""

    profile: Profile
    warnings: tuple[str, ...]


def merge(shards: Sequence[Profile], names: Sequence[str]) -> Merged:
    """One profile of all ranks.

    Args:
        shards: one per rank.
        names: what to call each in messages.

    Raises:
        ProfileError: they are not parts of one run, or one rank or board stands in two of them.
    """
    for shard, name in zip(shards[1:], names[1:], strict=True):
        _check_same(shards[0].metadata, shard.metadata, names[0], name)
    _check_distinct(shards, names)
    wait_w = fmean(shard.metadata.wait_power_w for shard in shards)
    peers = _peers(shards)
    rows: dict[tuple[Hashable, ...], list[ProfileRow]] = {}
    for shard in shards:
        for row in shard.rows:
            rows.setdefault(_key(row), []).append(row)
    merged = tuple(_merged(found, wait_w, peers) for found in rows.values())
    profile = Profile(metadata=_metadata(shards, wait_w), rows=merged)
    return Merged(profile=profile, warnings=_warnings(shards))


def _check_same(first: ProfileMetadata, other: ProfileMetadata, first_name: str, name: str) -> None:
    for field in _SAME:
        left, right = getattr(first, field), getattr(other, field)
        if left != right:
            raise ProfileError(
                f"{name} and {first_name} are not of one run: {field} is {right} in the one, {left} in the other"
            )
    left, right = (one.measurement.get("energy_source") for one in (first, other))
    if left != right:
        raise ProfileError(f"{name} has its energy from the {right}, {first_name} from the {left}")


def _check_distinct(shards: Sequence[Profile], names: Sequence[str]) -> None:
    """Every rank and every board once: two processes on one board would each count all of its energy."""
    ranks: dict[Hashable, str] = {}
    for shard, name in zip(shards, names, strict=True):
        board = (shard.metadata.host, shard.metadata.device_uuid)
        own: list[tuple[Hashable, str]] = [
            (rank, f"rank {rank}") for rank in {row.rank for row in shard.rows}
        ]
        if shard.metadata.device_uuid is not None:
            own.append((board, f"board {shard.metadata.device_uuid}"))
        for key, what in own:
            if key in ranks:
                raise ProfileError(f"{what} stands in both {ranks[key]} and {name}; each may count only once")
            ranks[key] = name


def _peers(shards: Sequence[Profile]) -> dict[int | None, frozenset[int | None]]:
    """Which ranks measured each stage."""
    found: dict[int | None, set[int | None]] = {}
    for shard in shards:
        for row in shard.rows:
            if row.level is Level.OP:
                found.setdefault(row.stage, set()).add(row.rank)
    return {stage: frozenset(ranks) for stage, ranks in found.items()}


def _key(row: ProfileRow) -> tuple[Hashable, ...]:
    return (
        row.level,
        row.stage,
        row.chunk,
        row.op,
        row.partition,
        row.kernel,
        row.execution,
        row.comm_launch,
        row.comm_sms,
        row.nanobatches,
        row.sm_clock_mhz,
    )


def _merged(
    rows: list[ProfileRow], wait_w: float, peers: dict[int | None, frozenset[int | None]]
) -> ProfileRow:
    usable = [row for row in rows if row.invalid is None]
    counted = usable if len(usable) == len(rows) else rows
    slowest = max(counted, key=lambda row: row.time_s)
    energy_j = fmean(row.energy_j + wait_w * (slowest.time_s - row.time_s) for row in counted)
    variances = [row.energy_std_j**2 for row in counted if row.energy_std_j is not None]
    samples = [row.samples for row in counted if row.samples is not None]
    return replace(
        slowest,
        energy_j=energy_j,
        energy_std_j=math.sqrt(math.fsum(variances)) / len(counted)
        if len(variances) == len(counted)
        else None,
        samples=min(samples) if samples else None,
        achieved_sm_clock_mhz=_lowest(counted),
        throttle=_all_bits(counted),
        rank=None,
        invalid=_why(rows, peers),
    )


def _why(rows: list[ProfileRow], peers: dict[int | None, frozenset[int | None]]) -> str | None:
    """A stage's row needs all of its ranks: the one that is missing may be the slowest."""
    for row in rows:
        if row.invalid is not None:
            return f"rank {row.rank}: {row.invalid}"
    missing = peers.get(rows[0].stage, frozenset()) - {row.rank for row in rows}
    if rows[0].stage is None or not missing:
        return None
    return f"rank {', '.join(map(str, sorted(missing, key=str)))} has no such row"


def _lowest(rows: list[ProfileRow]) -> int | None:
    clocks = [row.achieved_sm_clock_mhz for row in rows if row.achieved_sm_clock_mhz is not None]
    return min(clocks) if clocks else None


def _all_bits(rows: list[ProfileRow]) -> int | None:
    seen = [row.throttle for row in rows if row.throttle is not None]
    return reduce(or_, seen) if seen else None


def _metadata(shards: Sequence[Profile], wait_w: float) -> ProfileMetadata:
    metas = [shard.metadata for shard in shards]
    latencies = [one.clock_switch_latency_s for one in metas if one.clock_switch_latency_s is not None]
    idle = [one.idle_power_w for one in metas if one.idle_power_w is not None]
    boards = [one.device_uuid for one in metas if one.device_uuid is not None]
    measurement: dict[str, Any] = dict(metas[0].measurement)
    measurement.pop(_HALF_WIDTH, None)  # unknown where one rank does not know its own
    measurement |= {"ranks": len(shards), "boards": ", ".join(sorted(set(boards)))}
    measurement |= _joint(shards)
    hosts = sorted({one.host for one in metas if one.host is not None})
    return replace(
        metas[0],
        device_uuid=boards[0] if len(set(boards)) == 1 else None,
        wait_power_w=wait_w,
        idle_power_w=fmean(idle) if idle else None,
        clock_switch_latency_s=max(latencies) if latencies else None,
        measurement=measurement,
        partition_order={key: names for one in metas for key, names in one.partition_order.items()},
        host=", ".join(hosts) or None,
    )


def _joint(shards: Sequence[Profile]) -> dict[str, Any]:
    """What is said of how the ranks measured: sums, the worst, and the error of a mean of independent powers."""
    said = {name: _said(shards, name) for name in (*_SUMS, *_WORST, _RATIO, _HALF_WIDTH)}
    found: dict[str, Any] = {name: sum(said[name]) for name in _SUMS if said[name]}
    found |= {name: max(said[name]) for name in _WORST if said[name]}
    if said[_RATIO]:
        found[_RATIO] = max(said[_RATIO], key=lambda ratio: abs(ratio - 1))
    if len(said[_HALF_WIDTH]) == len(shards):
        found[_HALF_WIDTH] = math.hypot(*said[_HALF_WIDTH]) / len(shards)
    return found


def _said(shards: Sequence[Profile], name: str) -> list[Any]:
    """The numbers that shards give under a name."""
    values = (shard.metadata.measurement.get(name) for shard in shards)
    return [one for one in values if isinstance(one, int | float)]


def _warnings(shards: Sequence[Profile]) -> tuple[str, ...]:
    drivers = sorted({str(shard.metadata.driver) for shard in shards})
    if len(drivers) < 2:
        return ()
    return (f"the ranks were measured under different drivers: {', '.join(drivers)}",)
