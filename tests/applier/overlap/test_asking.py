"""A plan that training does not ask for is told of, once, after the first iteration that follows it."""

import pytest

from energyopt.applier.overlap.ways import Ways, planned_ways
from energyopt.applier.runtime.reports import Reports
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import Execution, PartitionConfig
from energyopt.schemas.planned_ops import PlannedOp

OVERLAPPED = PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=4, comm_launch="rope")


def said(names: tuple[str, ...], *, cut: bool, iterations: int = 3, begin: bool = True) -> tuple[str, ...]:
    """Of a training that asks for these partitions, where the plan has `mlp` and `attention` in two parts."""
    partitions = (("mlp", OVERLAPPED), ("attention", OVERLAPPED))
    op = PlannedOp(
        op=OpKind.FORWARD, chunk=0, microbatch=0, sm_clock_mhz=1, nanobatches=2, partitions=partitions
    )
    reports = Reports(0)
    ways = Ways(planned_ways((op,)), reports, "plan")
    ways.follow(True)
    for _ in range(iterations):
        ways.iteration(None, 1)
        if begin:
            ways.begin((OpKind.FORWARD, 0, 0))
        if cut:
            ways.nanobatches()
        for name in names:
            ways.partition(name)
        ways.end()
    return reports.said


@pytest.mark.parametrize(
    ("names", "missing"),
    [((), "attention, mlp"), (("MLP", "attention"), "mlp"), (("mlp", "attention"), None)],
)
def test_partitions(names: tuple[str, ...], missing: str | None) -> None:
    found = said(names, cut=True)
    assert len(found) == (missing is not None)
    assert missing is None or f"partitions {missing} were not asked for" in found[0]


def test_parts() -> None:
    (text,) = said(("mlp", "attention"), cut=False)
    assert "into 2 parts" in text and "session.nanobatches" in text


def test_not_before_the_iteration_has_ended_nor_of_operations_that_did_not_run() -> None:
    assert said((), cut=False, iterations=1) == ()
    assert said((), cut=False, begin=False) == ()
