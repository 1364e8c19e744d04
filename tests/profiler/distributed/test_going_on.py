"""Who goes on when boards cannot be used, and what the user hears of stages that nobody measured."""

from types import SimpleNamespace
from typing import Any

import pytest

from energyopt.profiler.distributed.shards import lacking, shard_path
from energyopt.profiler.measurement.agreement import AgreedError, agree_to_go_on
from energyopt.schemas.profile import Profile


class Team:
    """Three ranks, of which two have said their part."""

    rank, size = 2, 3

    def __init__(self, *others: tuple[bool, str | None]) -> None:
        self._others = others

    def gather(self, value: Any) -> list[Any]:
        return [*map(list, self._others), value]


FINE, BROKEN, GIVEN_UP = (True, None), (True, "no permission"), (False, None)


def test_without_problems_all_go_on() -> None:
    agree_to_go_on(Team(FINE, FINE), None)
    agree_to_go_on(Team(FINE, GIVEN_UP), None, allow_partial=True)


def test_one_problem_stops_all_ranks_with_the_same_words() -> None:
    with pytest.raises(AgreedError) as raised:
        agree_to_go_on(Team(FINE, BROKEN), None)
    words = "rank 1: no permission; all ranks stop and nothing is left set"
    assert str(raised.value) == f"{words}; --allow-partial goes on without such ranks"
    with pytest.raises(AgreedError, match=r"^rank 1: no permission \(and 1 more ranks\); all ranks stop"):
        agree_to_go_on(Team(FINE, BROKEN), "no driver")


def test_with_allow_partial_some_rank_must_be_able() -> None:
    agree_to_go_on(Team(FINE, BROKEN), "no driver", allow_partial=True)
    agree_to_go_on(Team(BROKEN, BROKEN), None, allow_partial=True)
    with pytest.raises(AgreedError, match=r"nothing is left set$"):
        agree_to_go_on(Team(GIVEN_UP, BROKEN), "no driver", allow_partial=True)


def test_shards_stand_beside_the_profile(tmp_path: Any) -> None:
    assert shard_path(tmp_path / "a.profile.parquet", 3) == tmp_path / "a.profile.rank3.parquet"


def test_stages_that_nobody_measured_are_named(small_profile: Profile) -> None:
    """The small profile's rows are of every stage; here they are stage 1's of three."""
    rows = tuple(SimpleNamespace(level=row.level, stage=1) for row in small_profile.rows)
    job: Any = SimpleNamespace(workload=SimpleNamespace(stages=3))
    profile: Any = SimpleNamespace(rows=rows)
    assert list(lacking(job, profile)) == [
        "no rank could measure stage 0, 2: the profile holds nothing of it"
    ]
    job.workload.stages = 2
    profile.rows += (SimpleNamespace(level=rows[0].level, stage=0),)
    assert list(lacking(job, profile)) == []
