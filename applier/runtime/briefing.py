"""What a rank tells its helper when it starts it."""

import os
import platform
from datetime import UTC, datetime
from typing import Any

from energyopt import __version__
from energyopt.applier.devices.site_lock import parse_site_lock
from energyopt.applier.guard.owner import start_ticks
from energyopt.applier.helper.orders import Orders
from energyopt.applier.runtime.facts import RunFacts
from energyopt.applier.runtime.loading import LoadedPlan
from energyopt.applier.runtime.ranks import launched_ordinal, run_id
from energyopt.applier.runtime.settings import Settings
from energyopt.applier.runtime.tables import StageTable
from energyopt.schemas.plan import Plan
from energyopt.schemas.telemetry_shard import SHARD_FORMAT, SHARD_VERSION


def orders_for(
    table: StageTable,
    plan: Plan,
    facts: RunFacts,
    settings: Settings,
    memory: int,
    header: dict[str, Any],
    *,
    apply: bool,
) -> Orders:
    """The orders of the helper of this rank, which follows the records in `memory`."""
    shard = None if settings.telemetry is None else settings.telemetry / f"rank{facts.rank}.jsonl"
    latency_s = settings.switch_latency_s
    return Orders(
        pid=os.getpid(),
        start_ticks=start_ticks(os.getpid()),
        rank=facts.rank,
        memory=memory,
        device=_device(settings, facts),
        apply=apply,
        device_name=plan.device_name,
        clocks_mhz=table.clocks_mhz,
        safe_mhz=table.safe_mhz,
        site_lock_mhz=parse_site_lock(settings.site_lock_mhz),
        site_lock_known=settings.site_lock_mhz is not None,
        latency_s=plan.clock_switch_latency_s if latency_s is None else latency_s,
        shard=None if shard is None else str(shard.absolute()),
        header=header,
        every=settings.sample_every,
        slowdown_file=None if settings.slowdown_file is None else str(settings.slowdown_file),
    )


def shard_header(
    loaded: LoadedPlan, facts: RunFacts, settings: Settings, *, timed_by_gpu: bool
) -> dict[str, Any]:
    """The shard's first line: what `merge` needs to make sense of the others."""
    plan = loaded.plan
    return {
        "format": SHARD_FORMAT,
        "schema_version": SHARD_VERSION,
        "tool_version": __version__,
        "rank": facts.rank,
        "world_size": facts.world_size,
        "stage": facts.stage,
        "framework": facts.framework,
        "host": platform.node(),
        "run_id": run_id(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "timer": "cuda_events" if timed_by_gpu else "cpu_clock",
        "sampled_every": settings.sample_every,
        "plan_sha256": loaded.sha256,
        "profile_sha256": plan.profile_sha256,
        "pipeline": plan.pipeline.to_json(),
        "ops": [
            [str(op.op), op.chunk, op.microbatch, op.backward_chunk, op.backward_microbatch]
            for op in plan.stages[facts.stage]
        ],
    }


def _device(settings: Settings, facts: RunFacts) -> str | None:
    """The board: as the user says, else the one that this rank's framework uses, else the launcher's."""
    if settings.device is not None:
        return None if settings.device == "none" else settings.device.removeprefix("nvml:")
    return str((launched_ordinal() or 0) if facts.device_ordinal is None else facts.device_ordinal)
