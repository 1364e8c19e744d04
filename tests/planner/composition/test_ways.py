"""Which numbers of nanobatches a schedule is offered: forwards and backwards are cut alike."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from energyopt.planner.composition.table import Composition, offered_options
from energyopt.planner.composition.ways import by_ways, in_ways
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.options import Option
from energyopt.schemas.profile import Level

F, B, I, W = OpKind.FORWARD, OpKind.BACKWARD, OpKind.BACKWARD_INPUT, OpKind.BACKWARD_WEIGHT  # noqa: E741


def _offered(
    known: dict[tuple[int, OpKind], tuple[int, ...]],
) -> dict[OpKey, dict[int, tuple[Option, ...]]]:
    return {
        OpKey(stage, 0, kind): {
            count: (Option(sm_clock_mhz=1000, time_s=1.0, energy_j=9.0, nanobatches=count),)
            for count in counts
        }
        for (stage, kind), counts in known.items()
    }


@pytest.mark.parametrize(
    ("known", "kept", "dropped"),
    [
        ({(0, F): (1, 2), (0, B): (1, 2)}, [1, 2], []),
        ({(0, F): (2,), (0, B): (2,)}, [2], []),
        ({(0, F): (1, 2), (0, B): (1,)}, [1], ["2 nanobatches"]),
        ({(0, F): (1,), (0, B): (1, 2)}, [1], ["2 nanobatches"]),
        ({(0, F): (1, 2), (0, B): (2,)}, [2], ["whole microbatches"]),
        ({(0, F): (1, 2, 4), (0, B): (1, 4)}, [1, 4], ["2 nanobatches"]),
        ({(0, F): (1, 2), (0, I): (1,), (0, W): (1, 2)}, [1], ["2 nanobatches"]),
        ({(0, F): (1, 2), (0, I): (1, 2), (0, W): (1,)}, [1, 2], []),
        ({(0, F): (1, 2), (0, I): (1, 2), (0, W): (1, 4)}, [1], ["2 nanobatches", "4 nanobatches"]),
        ({(0, F): (1,), (0, B): (1,), (1, F): (1, 2), (1, B): (1, 2)}, [1, 2], []),
        ({(0, F): (1, 2), (0, B): (1, 2), (1, F): (1, 2), (1, B): (1,)}, [1], ["2 nanobatches"]),
        ({(0, F): (1, 2), (0, B): (1, 2), (0, OpKind.OPTIMIZER): (1,)}, [1, 2], []),
    ],
)
def test_ways_that_cut_alike_are_kept(
    known: dict[tuple[int, OpKind], tuple[int, ...]], kept: list[int], dropped: list[str]
) -> None:
    tables, unlike = by_ways(_offered(known))
    assert list(tables) == kept
    assert [text.split(":")[0] for text in unlike] == dropped
    for table in tables.values():
        for stage in {key.stage for key in table}:
            cuts = {
                table[key][0].nanobatches for key in table if key.stage == stage and key.kind in (F, B, I)
            }
            assert len(cuts) == 1


def test_a_job_that_cannot_be_cut_alike_is_refused() -> None:
    with pytest.raises(
        ProfileError, match="the backward of stage 0 would run in 2 and the forward of stage 0 in 1"
    ):
        by_ways(_offered({(0, F): (1,), (0, B): (2,)}))


def test_bounds_are_not_over_ways_that_no_plan_can_choose() -> None:
    offered = _offered({(0, F): (1, 2), (0, B): (1,)})
    measured = {key: tuple(one for found in ways.values() for one in found) for key, ways in offered.items()}
    kept, _ = by_ways(offered)
    assert {one.nanobatches for found in in_ways(measured, offered, kept).values() for one in found} == {1}


def test_a_dropped_way_is_a_warning(partition_job: Callable[..., Any]) -> None:
    profile, _, schedule = partition_job(0)
    rows = tuple(
        row
        for row in profile.rows
        if not (row.level is Level.PARTITION and row.op is B and row.stage == 1 and row.nanobatches == 2)
    )
    offer = offered_options(replace(profile, rows=rows), [op.key for op in schedule.ops], Composition())
    assert list(offer.offered) == [1]
    assert offer.missing == (
        "2 nanobatches: the backward of stage 1 would run in 1 and the forward of stage 1 in 2",
    )
    assert all(one.nanobatches == 1 for options in offer.measured.values() for one in options)
