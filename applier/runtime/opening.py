"""Putting a session together: load the plan, check it against the run and the board, start the helper."""

import atexit
import os
from pathlib import Path

from energyopt.applier.runtime import channel
from energyopt.applier.runtime.agreement import agreement
from energyopt.applier.runtime.briefing import orders_for, shard_header
from energyopt.applier.runtime.checks import mismatches, order_mismatch, wrong_shape
from energyopt.applier.runtime.current import make_current
from energyopt.applier.runtime.facts import Describe, RunFacts
from energyopt.applier.runtime.gpu_times import gpu_times
from energyopt.applier.runtime.helper_process import HelperProcess, start_helper
from energyopt.applier.runtime.late import AnySession, LateSession
from energyopt.applier.runtime.loading import LoadedPlan, load_plan
from energyopt.applier.runtime.off import OffSession
from energyopt.applier.runtime.ranks import device_ordinal, rank, rank_and_world_size
from energyopt.applier.runtime.reports import Reports
from energyopt.applier.runtime.session import Session
from energyopt.applier.runtime.settings import Mode, Settings, from_environment
from energyopt.applier.runtime.slowdown import Slowdown
from energyopt.applier.runtime.standard import standard_taken
from energyopt.applier.runtime.tables import stage_table
from energyopt.schemas.errors import EnergyoptError, RequestError
from energyopt.schemas.plan import Plan


def open_session(
    plan: str | Path | None = None,
    *,
    stage: int | None = None,
    settings: Settings | None = None,
    facts: RunFacts | None = None,
) -> LateSession | OffSession:
    """The session of this rank; never raises: what is wrong is said once, and training goes on without it.

    The plan is compared with the run, and the board opened, where the first iteration begins.

    Args:
        plan: the plan file, instead of ENERGYOPT_PLAN.
        stage: this rank's pipeline stage, for a loop of one's own. Where there is one rank to each stage, it is the
            rank if not given.
        settings: instead of the environment's.
        facts: what is known of the run; without them the plan is taken at its word.
    """
    reports = Reports(rank() if facts is None else facts.rank)
    try:
        settings = settings or from_environment()
        path = settings.plan if plan is None else Path(plan)
        if settings.mode is Mode.OFF or path is None:
            return OffSession()
        loaded = load_plan(path)
    except Exception as error:
        return _without(error, reports)
    wanted = settings
    describe = (lambda: _stated_facts(loaded.plan, stage)) if facts is None else (lambda: facts)
    session = LateSession(lambda: open_now(loaded, describe, wanted))
    make_current(session)
    return session


def open_now(plan: LoadedPlan | Path, describe: Describe, settings: Settings) -> AnySession:
    """The session itself, for a run that can be described by now; never raises.

    Args:
        plan: the plan, or its file.
        describe: gives what is known of the run.
        settings: what the user wants.
    """
    reports = Reports(rank())
    try:
        facts = describe()
        reports = Reports(facts.rank)
        with standard_taken():
            return _open(load_plan(plan) if isinstance(plan, Path) else plan, facts, settings, reports)
    except Exception as error:
        return _without(error, reports)


def _without(error: Exception, reports: Reports) -> OffSession:
    if isinstance(error, EnergyoptError):
        reports.once("open", f"{error}; training goes on without a plan")
    else:
        reports.once("open", f"the shim has stopped itself: {type(error).__name__}: {error}")
    return OffSession()


def _open(loaded: LoadedPlan, facts: RunFacts, settings: Settings, reports: Reports) -> AnySession:
    plan = loaded.plan
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
        header = shard_header(loaded, facts, settings, timed_by_gpu=times is not None)
        helper = start_helper(orders_for(table, plan, facts, settings, memory, header, apply=apply))
    finally:
        os.close(memory)
    reports.passed_on = helper.tell
    for text in wrong:
        helper.tell(text)
    _say_problems(helper, reports, apply=apply)
    join = (lambda: agreement(facts.world_size)) if len(table.clocks_mhz) > 1 else None
    session = Session(
        table=table,
        microbatches=plan.pipeline.microbatches,
        writer=writer,
        helper=helper,
        slowdown=Slowdown(table, join, writer.wished_slowdown, reports, settings.slowdown),
        times=times,
        reports=reports,
        every=settings.sample_every if settings.telemetry is not None else 0,
        plan_sha256=loaded.sha256 if apply else None,
    )
    atexit.register(session.close)
    return session


def _say_problems(helper: HelperProcess, reports: Reports, *, apply: bool) -> None:
    for problem in helper.answer.problems:
        consequence = "; clocks are left alone" if apply and not helper.answer.held else ""
        reports.once(problem, f"{problem}{consequence}")


def _stated_facts(plan: Plan, stage: int | None) -> RunFacts:
    """Of a loop of one's own: the plan's pipeline, and the rank that torch.distributed or a launcher gives."""
    number, world_size = rank_and_world_size()
    return RunFacts(
        framework="own loop",
        rank=number,
        world_size=world_size,
        stage=_stage(plan.pipeline.stages, number, world_size) if stage is None else stage,
        stages=plan.pipeline.stages,
        chunks=plan.pipeline.chunks_per_stage,
        microbatches=plan.pipeline.microbatches,
        device_ordinal=device_ordinal(),
    )


def _stage(stages: int, number: int, world_size: int) -> int:
    """Frameworks place stages, replicas and tensor slices on ranks in many ways: a guess could be wrong unseen."""
    if stages == 1:
        return 0
    if world_size != stages:
        raise RequestError(
            f"which of the plan's {stages} stages rank {number} of {world_size} runs cannot be told; "
            "give open_session(stage=...)"
        )
    return number
