"""Does a plan fit the run that it was loaded into? Asked once, before the first operation."""

import math
from collections.abc import Iterator

from energyopt.applier.runtime.facts import RunFacts
from energyopt.schemas.errors import RequestError
from energyopt.schemas.plan import Plan

_DEGREES = ("tensor_parallel", "context_parallel")
"""Not the data-parallel degree: it changes no operation, and runs are moved to more or fewer GPUs."""


def mismatches(plan: Plan, facts: RunFacts) -> list[str]:
    """Every way in which a plan is for another run, one line each; an empty list if it fits.

    The number of microbatches is not among them: it may change during a run (ramp-up), so each iteration is asked.
    """
    return [*_shape(plan, facts), *_degrees(plan, facts), *_world(plan, facts)]


def refuse_clocks_of_partitions(plan: Plan) -> None:
    """The shim sets clocks of operations alone.

    Raises:
        RequestError: names the first partition that has one of its own.
    """
    plans = (plan.stages, *(one.stages for one in plan.alternatives))
    places = ((stage, op) for stages in plans for stage, ops in enumerate(stages) for op in ops)
    for stage, op in places:
        for name, config in op.partitions:
            if config.sm_clock_mhz is not None:
                raise RequestError(
                    f"the plan gives partition {name} of {op.op} on stage {stage} a clock of its own, "
                    f"{config.sm_clock_mhz} MHz, and the shim sets those of operations alone: plan without "
                    "--mixed-clocks"
                )


def wrong_shape(plan: Plan, facts: RunFacts) -> bool:
    """Whether not even this rank's stage can be told: then there is nothing to look operations up in."""
    return plan.pipeline.stages != facts.stages or facts.stage not in range(plan.pipeline.stages)


def order_mismatch(plan: Plan, facts: RunFacts) -> str | None:
    """Where the framework lists its operations beforehand, the first one that the plan has otherwise."""
    if facts.order is None or wrong_shape(plan, facts) or facts.microbatches != plan.pipeline.microbatches:
        return None
    planned = [(op.op, op.chunk, op.microbatch) for op in plan.stages[facts.stage]]
    found = [(op.kind, op.chunk, op.microbatch) for op in facts.order]
    for number, (one, other) in enumerate(zip(planned, found, strict=False)):
        if one != other:
            where = f"operation {number} of stage {facts.stage}"
            return f"{where} is {_name(other)} in the run, {_name(one)} in the plan"
    if len(planned) != len(found):
        return f"stage {facts.stage} runs {len(found)} operations, the plan has {len(planned)}"
    return None


def _shape(plan: Plan, facts: RunFacts) -> Iterator[str]:
    pipeline = plan.pipeline
    if pipeline.stages != facts.stages:
        yield f"the plan is for {pipeline.stages} pipeline stages, the run has {facts.stages}"
    elif facts.stage not in range(pipeline.stages):
        yield f"this rank is said to run stage {facts.stage}, the plan has 0 to {pipeline.stages - 1}"
    if pipeline.chunks_per_stage != facts.chunks:
        yield f"the plan is for {pipeline.chunks_per_stage} chunks per stage, the run has {facts.chunks}"
    known = not pipeline.schedule.startswith(("csv:", "imported"))
    if known and facts.schedule is not None and _plain(facts) != _plain_plan(plan):
        yield f"the plan is for the schedule {pipeline.schedule}, the run uses {facts.schedule}"


def _plain(facts: RunFacts) -> str | None:
    """With one stage and chunk, every schedule is the same but for whether backwards come at the end."""
    return facts.schedule if facts.schedule != "interleaved-1f1b" or facts.chunks > 1 else "1f1b"


def _plain_plan(plan: Plan) -> str:
    interleaved = plan.pipeline.schedule == "interleaved-1f1b" and plan.pipeline.chunks_per_stage == 1
    return "1f1b" if interleaved else plan.pipeline.schedule


def _degrees(plan: Plan, facts: RunFacts) -> Iterator[str]:
    for name in _DEGREES:
        planned, found = getattr(plan.pipeline, name), getattr(facts, name)
        if found is not None and planned != found:
            yield f"the plan is for {name} {planned}, the run has {found}"


def _world(plan: Plan, facts: RunFacts) -> Iterator[str]:
    """A replica takes this many ranks, and the run has whole replicas."""
    degrees = [_known(getattr(facts, name), getattr(plan.pipeline, name)) for name in _DEGREES]
    needed = plan.pipeline.stages * math.prod(degrees)
    if plan.pipeline.stages == facts.stages and facts.world_size % needed:
        yield (
            f"the plan is for {plan.pipeline.stages} stages x tensor_parallel {degrees[0]} x context_parallel "
            f"{degrees[1]} = {needed} ranks or a multiple of them, the run has {facts.world_size}"
        )


def _known(found: int | None, planned: int) -> int:
    return planned if found is None else found


def _name(key: tuple[str, int, int]) -> str:
    kind, chunk, microbatch = key
    return f"{kind} of microbatch {microbatch}" + (f", chunk {chunk}" if chunk else "")
