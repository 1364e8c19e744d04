"""Putting a session together: load the plan, check it against the run and the board, start the helper."""

import atexit
import hashlib
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from energyopt import __version__
from energyopt.applier.devices.site_lock import parse_site_lock
from energyopt.applier.guard.owner import start_ticks
from energyopt.applier.helper.orders import Orders
from energyopt.applier.runtime import channel
from energyopt.applier.runtime.agreement import Agreement, agreement
from energyopt.applier.runtime.checks import mismatches, order_mismatch, wrong_shape
from energyopt.applier.runtime.facts import RunFacts
from energyopt.applier.runtime.gpu_times import gpu_times
from energyopt.applier.runtime.helper_process import HelperProcess, start_helper
from energyopt.applier.runtime.off import OffSession
from energyopt.applier.runtime.reports import Reports
from energyopt.applier.runtime.session import Session
from energyopt.applier.runtime.settings import Mode, Settings, from_environment
from energyopt.applier.runtime.slowdown import Slowdown
from energyopt.applier.runtime.standard import standard_taken
from energyopt.applier.runtime.tables import StageTable, stage_table
from energyopt.schemas.errors import EnergyoptError
from energyopt.schemas.files import read_bytes
from energyopt.schemas.plan import Plan, read_plan
from energyopt.schemas.telemetry_shard import SHARD_FORMAT, SHARD_VERSION

AnySession = Session | OffSession


def open_session(
    plan: str | Path | None = None,
    *,
    stage: int | None = None,
    settings: Settings | None = None,
    facts: RunFacts | None = None,
) -> AnySession:
    """The session of this rank; never raises: what is wrong is said once, and training goes on without it.

    Args:
        plan: the plan file, instead of ENERGYOPT_PLAN.
        stage: this rank's pipeline stage, for a loop of one's own; else `facts` tells.
        settings: instead of the environment's.
        facts: what is known of the run; without them the plan is taken at its word.
    """
    reports = Reports(_rank(os.environ) if facts is None else facts.rank)
    try:
        settings = settings or from_environment()
        path = settings.plan if plan is None else Path(plan)
        if settings.mode is Mode.OFF or path is None:
            return OffSession()
        loaded = read_plan(path)
        facts = facts or _stated_facts(loaded, stage)
        with standard_taken():
            return _open(path, loaded, facts, settings, reports)
    except EnergyoptError as error:
        reports.once("open", f"{error}; training goes on without a plan")
    except Exception as error:
        reports.once("open", f"the shim has stopped itself: {type(error).__name__}: {error}")
    return OffSession()


def _open(path: Path, plan: Plan, facts: RunFacts, settings: Settings, reports: Reports) -> AnySession:
    wrong = mismatches(plan, facts)
    for text in wrong:
        reports.once(text, f"{text}: clocks are left alone")
    if wrong_shape(plan, facts):
        return OffSession()
    table = stage_table(plan, facts.stage)
    if (other := order_mismatch(plan, facts)) is not None:
        reports.once("order", f"{other}; each operation still gets its own clock")
    apply = settings.mode is Mode.APPLY and not wrong
    memory = channel.create()
    try:
        writer = channel.Writer(memory)
        times = gpu_times()
        header = _header(path, plan, facts, settings, timed_by_gpu=times is not None)
        helper = start_helper(_orders(table, plan, facts, settings, memory, header, apply=apply))
    finally:
        os.close(memory)
    reports.passed_on = helper.tell
    for text in wrong:
        helper.tell(text)
    _say_problems(helper, reports, apply=apply)
    session = Session(
        table=table,
        microbatches=plan.pipeline.microbatches,
        writer=writer,
        helper=helper,
        slowdown=Slowdown(
            table,
            _agreement(reports) if len(table.clocks_mhz) > 1 else None,
            writer.wished_slowdown,
            reports,
            settings.slowdown,
        ),
        times=times,
        reports=reports,
        every=settings.sample_every if settings.telemetry is not None else 0,
    )
    atexit.register(session.close)
    return session


def _agreement(reports: Reports) -> Agreement | None:
    """Made when the helper runs: who makes it takes part in a collective at every iteration from then on."""
    try:
        return agreement()
    except Exception as error:  # a version of torch that is not as this knows it
        reports.once("agreement", f"the ranks cannot slow down together: {type(error).__name__}: {error}")
        return None


def _say_problems(helper: HelperProcess, reports: Reports, *, apply: bool) -> None:
    for problem in helper.answer.problems:
        consequence = "; clocks are left alone" if apply and not helper.answer.held else ""
        reports.once(problem, f"{problem}{consequence}")


def _orders(
    table: StageTable,
    plan: Plan,
    facts: RunFacts,
    settings: Settings,
    memory: int,
    header: dict[str, Any],
    *,
    apply: bool,
) -> Orders:
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


def _device(settings: Settings, facts: RunFacts) -> str | None:
    """The board: as the user says, else the one that this rank's framework uses, else that of its local rank."""
    if settings.device is not None:
        return None if settings.device == "none" else settings.device.removeprefix("nvml:")
    return str(_local_rank() if facts.device_ordinal is None else facts.device_ordinal)


def _header(
    path: Path, plan: Plan, facts: RunFacts, settings: Settings, *, timed_by_gpu: bool
) -> dict[str, Any]:
    """The shard's first line: what `merge` needs to make sense of the others."""
    return {
        "format": SHARD_FORMAT,
        "schema_version": SHARD_VERSION,
        "tool_version": __version__,
        "rank": facts.rank,
        "world_size": facts.world_size,
        "stage": facts.stage,
        "framework": facts.framework,
        "host": platform.node(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "timer": "cuda_events" if timed_by_gpu else "cpu_clock",
        "sampled_every": settings.sample_every,
        "plan_sha256": hashlib.sha256(read_bytes(path)).hexdigest(),
        "profile_sha256": plan.profile_sha256,
        "pipeline": plan.pipeline.to_json(),
        "ops": [
            [str(op.op), op.chunk, op.microbatch, op.backward_chunk, op.backward_microbatch]
            for op in plan.stages[facts.stage]
        ],
    }


def _stated_facts(plan: Plan, stage: int | None) -> RunFacts:
    """Of a loop of the user's own: the plan's pipeline, and the rank that torchrun or a batch system gives."""
    rank, world_size = _rank(os.environ), _number(os.environ, "WORLD_SIZE", "SLURM_NTASKS", default=1)
    return RunFacts(
        framework="own loop",
        rank=rank,
        world_size=world_size,
        stage=rank % plan.pipeline.stages if stage is None else stage,
        stages=plan.pipeline.stages,
        chunks=plan.pipeline.chunks_per_stage,
        microbatches=plan.pipeline.microbatches,
        device_ordinal=_local_rank(),
    )


def _rank(environment: Mapping[str, str]) -> int:
    return _number(environment, "RANK", "SLURM_PROCID", default=0)


def _local_rank() -> int:
    return _number(os.environ, "LOCAL_RANK", "SLURM_LOCALID", default=0)


def _number(environment: Mapping[str, str], *names: str, default: int) -> int:
    for name in names:
        text = environment.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
    return default
