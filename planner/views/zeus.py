"""A frequency plan of Zeus: what each stage's operations are set to."""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from energyopt.planner.tables import Table
from energyopt.schemas.ops import OpKind

ZeusStages = Sequence[Sequence[tuple[OpKind, int]]]  # per stage, in the order it runs: kind and clock in MHz


def zeus_tables(stages: ZeusStages) -> tuple[Table, ...]:
    """The clocks per stage and kind; such a list predicts neither time nor energy."""
    rows = tuple(
        (str(stage), str(kind), str(len(clocks)), str(min(clocks)), f"{fmean(clocks):.1f}", str(max(clocks)))
        for stage, kind, clocks in _groups(stages)
    )
    columns = ("stage", "op", "ops", "lowest MHz", "mean MHz", "highest MHz")
    return (Table(title="clocks of a list for Zeus", columns=columns, rows=rows),)


def zeus_to_json(stages: ZeusStages) -> dict[str, Any]:
    """The list itself, and the clocks per stage and kind."""
    return {
        "format": "zeus-list",
        "stages": [[[str(kind), clock] for kind, clock in ops] for ops in stages],
        "clocks": [
            {
                "stage": stage,
                "op": str(kind),
                "ops": len(clocks),
                "lowest_mhz": min(clocks),
                "mean_mhz": fmean(clocks),
                "highest_mhz": max(clocks),
            }
            for stage, kind, clocks in _groups(stages)
        ],
    }


def _groups(stages: ZeusStages) -> Iterator[tuple[int, OpKind, list[int]]]:
    for stage, ops in enumerate(stages):
        for kind in sorted({kind for kind, _ in ops}):
            yield stage, kind, [clock for one, clock in ops if one is kind]
