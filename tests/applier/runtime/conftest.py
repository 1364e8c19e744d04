"""A plan for one stage, and a session whose records a test reads itself."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import pytest

from energyopt.applier.runtime import channel
from energyopt.applier.runtime.helper_process import Answer
from energyopt.applier.runtime.reports import Reports
from energyopt.applier.runtime.session import Session
from energyopt.applier.runtime.slowdown import Slowdown
from energyopt.applier.runtime.tables import stage_table
from energyopt.schemas.ops import OpKind
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Alternative, Plan, Prediction
from energyopt.schemas.planned_ops import PlannedOp

KINDS = (OpKind.FORWARD, OpKind.BACKWARD)
ORDER = [(str(kind), microbatch) for microbatch in range(3) for kind in KINDS]
"""The operations of the plan that rigs run by default."""
CLOCKS_MHZ = (1305, 900, 1200, 1005, 1395)  # safe: 1395; five and two kinds: they meet in every combination


def plan_with(*, microbatches: int = 3, stages: int = 1, clocks: tuple[int, ...] = CLOCKS_MHZ) -> Plan:
    """Forward and backward of each microbatch in turn, stages alike; alternatives at 1.1 and 1.2 times its time."""

    def ops(clocks: tuple[int, ...]) -> tuple[PlannedOp, ...]:
        following = cycle(clocks)
        return tuple(
            PlannedOp(op=kind, chunk=0, microbatch=microbatch, sm_clock_mhz=next(following))
            for microbatch in range(microbatches)
            for kind in KINDS
        )

    def alternative(factor: float, clock: int) -> Alternative:
        predicted = Prediction(iteration_time_s=factor, energy_j=90.0 / factor)
        return Alternative(predicted=predicted, stages=(ops((clock,)),) * stages)

    return Plan(
        profile_sha256=None,
        device_name="NVIDIA A100-SXM4-80GB",
        device_kind="nvml",
        pipeline=Pipeline(stages=stages, microbatches=microbatches),
        gpus=stages,
        predicted=Prediction(iteration_time_s=1.0, energy_j=100.0),
        max_clock=None,
        best_single_clock=None,
        stages=(ops(clocks),) * stages,
        alternatives=(alternative(1.1, 810), alternative(1.2, 705)),
    )


@pytest.fixture
def make_plan() -> Callable[..., Plan]:
    return plan_with


class StandInHelper:
    """What a session sees of its helper, without one."""

    def __init__(self) -> None:
        self.answer = Answer(held=True, problems=(), board=None)
        self.code: int | None = None
        self.dismissed = 0
        self.gave_back = 0
        self.told: list[str] = []

    def ended(self) -> int | None:
        return self.code

    def tell(self, text: str) -> None:
        self.told.append(text)

    def dismiss(self) -> bool:
        self.dismissed += 1
        return True

    def give_back_after(self) -> None:
        self.gave_back += 1


@dataclass(kw_only=True)
class Rig:
    """A session and the other end of its channel."""

    session: Session
    reader: channel.Reader
    helper: StandInHelper
    reports: Reports

    def run_all(self) -> None:
        """Every operation of the plan, in its order."""
        for kind, microbatch in ORDER:
            with self.session.op(kind, microbatch):
                pass

    def records(self) -> list[channel.Record]:
        """All that were written since the last call."""
        return list(iter(self.reader.take, None))


@pytest.fixture
def make_rig() -> Callable[..., Rig]:
    """`make_rig(every=1)`: a session of the plan above."""

    def make(plan: Plan | None = None, agreement: Any = None, **changes: Any) -> Rig:
        plan = plan or plan_with()
        descriptor = channel.create()
        writer, reader = channel.Writer(descriptor), channel.Reader(descriptor)
        os.close(descriptor)
        helper, reports, table = StandInHelper(), Reports(0), stage_table(plan, 0)
        join = None if agreement is None else lambda: agreement
        values: dict[str, Any] = {
            "table": table,
            "microbatches": plan.pipeline.microbatches,
            "writer": writer,
            "helper": helper,
            "slowdown": Slowdown(table, join, writer.wished_slowdown, reports, 1.0),
            "times": None,
            "reports": reports,
            "every": 1,
        }
        return Rig(session=Session(**values | changes), reader=reader, helper=helper, reports=reports)

    return make
