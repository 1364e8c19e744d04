"""A run's telemetry as tables and as JSON: a hand-made run of one stage on two ranks."""

import json
from typing import Any

import pytest

from energyopt.planner.tables import Table
from energyopt.planner.views.telemetry import telemetry_tables, telemetry_to_json
from energyopt.schemas.columns import arrow_table
from energyopt.schemas.errors import NotComparableError
from energyopt.schemas.files import canonical_json
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.telemetry import ARROW_SCHEMA, Gpu, Mode, Telemetry, TelemetryMetadata


def run(ranks: int = 2, iterations: int = 4) -> Telemetry:
    """Iterations take 2 s and 100 J on each rank's board; the one forward runs at 1300 of 1400 MHz."""
    rows: list[dict[str, Any]] = []
    for iteration in range(0, 10 * iterations, 10):
        for rank in range(ranks):
            shared = {"rank": rank, "stage": 0, "iteration": iteration, "alternative": 0}
            whole = {
                "level": "iteration",
                "time_s": 2.0,
                "energy_j": 100.0,
                "clock_sets": 3,
                "overhead_s": 1e-5,
            }
            op = {"level": "op", "op": "forward", "chunk": 0, "microbatch": 0, "time_s": 0.5, "throttle": 4}
            clocks = {"sm_clock_mhz": 1400, "achieved_sm_clock_mhz": 1300}
            rows += [shared | whole, shared | op | clocks]
    metadata = TelemetryMetadata(
        plan_sha256=None,
        profile_sha256=None,
        pipeline=Pipeline(stages=1, microbatches=1, data_parallel=2),
        world_size=2,
        gpus=tuple(Gpu(rank=rank, stage=0, mode=Mode.APPLY, name="toy", uuid=str(rank)) for rank in range(2)),
        timer="cuda_events",
        sampled_every=10,
        reports=("rank 1: late",),
    )
    columns = {name: [row.get(name) for row in rows] for name in ARROW_SCHEMA.names}
    return Telemetry(metadata=metadata, table=arrow_table(columns, ARROW_SCHEMA))


def _row(table: Table, name: str) -> tuple[str, ...]:
    return next(row[1:] for row in table.rows if row[0] == name)


def test_the_tables_of_a_run() -> None:
    scope, iterations, ops, shim, reports = telemetry_tables(run(), "t")
    assert _row(scope, "energies") == ("GPU boards only; 2 GPUs of 2 ranks (toy)",)
    assert _row(scope, "iterations") == (
        "0 to 30 by 10 as the run counts them, 4 in all, every 10th recorded",
    )
    assert _row(iterations, "the plan") == (
        "4",
        "2.0000",
        "0.00 %",
        "0.00 %",
        "2",
        "200.0",
        "0.00 %",
        "0.00 %",
    )
    assert _row(iterations, "the plan, stage 0")[4:6] == ("2", "200.0")
    assert ops.rows == (("forward of stage 0", "1400", "1300", "8", "0.5", "0.00 %", "power cap"),)
    assert _row(shim, "clock_sets") == ("3.0", "3")
    assert _row(shim, "helper_cpu_s") == ("-", "-")
    assert reports.rows == (("rank 1: late",),)


def test_json_holds_every_iteration() -> None:
    found = telemetry_to_json(run(), "t")
    assert len(found["iterations"]) == 8
    assert found["ops"][0]["throttle"] == ("power cap",)
    assert json.loads(canonical_json(found))["metadata"]["gpus"][1]["mode"] == "apply"


def test_a_run_of_which_a_rank_is_missing_is_shown_all_the_same() -> None:
    scope, iterations, *_ = telemetry_tables(run(ranks=1), "t")
    assert _row(scope, "note") == ("only 1 of 2 ranks are there",)
    assert _row(iterations, "the plan")[4:6] == ("1", "100.0")


def test_a_run_without_iterations_says_so() -> None:
    with pytest.raises(NotComparableError, match="no iteration to look at"):
        telemetry_tables(run(iterations=0), "t")
