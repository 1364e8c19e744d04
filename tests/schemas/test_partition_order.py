"""The order of partitions in a profile's metadata."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.profile import Profile, read_profile, write_profile

ORDER = {
    OpKey(0, 0, OpKind.FORWARD): ("embedding", "attention", "mlp"),
    OpKey(1, 0, OpKind.BACKWARD): ("mlp", "attention"),
}


def _with(profile: Profile, order: dict[OpKey, tuple[str, ...]]) -> Profile:
    return replace(profile, metadata=replace(profile.metadata, partition_order=order))


def test_round_trip(small_profile: Profile, tmp_path: Path) -> None:
    profile = _with(small_profile, ORDER)
    write_profile(tmp_path / "p.parquet", profile)
    found = read_profile(tmp_path / "p.parquet")
    assert found.metadata == profile.metadata
    assert found.sha256() == profile.sha256()


def test_it_decides_plans_and_changes_nothing_where_nobody_said(
    small_profile: Profile, tmp_path: Path
) -> None:
    digests = {_with(small_profile, order).sha256() for order in ({}, ORDER, dict([*ORDER.items()][:1]))}
    assert len(digests) == 3
    write_profile(tmp_path / "p.parquet", small_profile)
    assert b"partition_order" not in pq.read_schema(tmp_path / "p.parquet").metadata[b"energyopt"]
    assert read_profile(tmp_path / "p.parquet").metadata.partition_order == {}


ENTRY = {"stage": 0, "chunk": 0, "op": "forward", "partitions": ["attention", "mlp"]}


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        ([ENTRY | {"op": "sideways"}], "'sideways' is none of"),
        ([ENTRY | {"stage": -1}], "partition_order\\[0\\].stage"),
        ([ENTRY, ENTRY], "the forward of stage 0 stands there twice"),
        ([ENTRY | {"partitions": ["mlp", "mlp"]}], "one of its partitions does"),
        ([ENTRY | {"partitions": "mlp"}], "partition_order\\[0\\].partitions"),
        ([ENTRY | {"partitions": [7]}], "partition_order\\[0\\].partitions\\[0\\]"),
        ({"forward": ["mlp"]}, "partition_order"),
    ],
)
def test_what_cannot_be_is_refused(order: Any, problem: str, small_profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    write_profile(path, small_profile)
    table = pq.read_table(path)
    header = json.loads(table.schema.metadata[b"energyopt"]) | {"partition_order": order}
    pq.write_table(table.replace_schema_metadata({"energyopt": json.dumps(header)}), path)
    with pytest.raises(FileFormatError, match=problem):
        read_profile(path)
