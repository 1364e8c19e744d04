"""What a layout's rows are derived to be is what measuring it would have given, from the same windows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from energyopt.planner.sweep.relayout import relaid, split_for
from energyopt.planner.sweep.source import Role, layers_of, source_of
from energyopt.profiler.workloads.job import JobShape, split_layers
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.layers import even_split
from energyopt.schemas.ops import OpKind
from energyopt.schemas.profile import Level, Profile, ProfileRow

Measure = Callable[..., Profile]
EXACT = ("count", "nanobatches", "invalid", "samples", "achieved_sm_clock_mhz", "energy_source")


def _named(profile: Profile) -> dict[tuple[Any, ...], ProfileRow]:
    found = {
        (
            row.level, row.stage, row.chunk, row.op, row.partition, row.kernel, row.execution, row.comm_launch,
            row.comm_sms, row.nanobatches, row.sm_clock_mhz,
        ): row
        for row in profile.rows
    }  # fmt: skip
    assert len(found) == len(profile.rows)
    return found


def _check_same(derived: Profile, direct: Profile) -> None:
    """The same rows, up to rounding.

    The deviation of an operation is an estimate from three rounds here, and its partitions may share kernels.
    """
    ours, theirs = _named(derived), _named(direct)
    assert ours.keys() == theirs.keys()
    for name, row in theirs.items():
        own = ours[name]
        assert [getattr(own, one) for one in EXACT] == [getattr(row, one) for one in EXACT]
        assert (own.time_s, own.energy_j) == pytest.approx((row.time_s, row.energy_j), rel=1e-12)
        stds = (own.time_std_s, row.time_std_s), (own.energy_std_j, row.energy_std_j)
        for one, other in stds:
            assert one is not None and other is not None
            assert 0.5 < one / other < 2 if row.level is Level.OP else one == other


LAYOUTS = [
    ({"stages": 4}, {"stages": 2}),
    ({"stages": 4}, {"stages": 8}),
    ({"stages": 4}, {"stages": 1}),
    ({"stages": 1}, {"stages": 4}),
    ({"stages": 2}, {"stages": 4, "chunks": 3}),  # 28 layers on 12 virtual stages: some have three
    ({"stages": 2, "chunks": 2}, {"stages": 3}),
    ({"stages": 2, "split_backward": True}, {"stages": 5}),
    ({"stages": 2, "layers_per_stage": (10, 18)}, {"stages": 4}),
    ({"stages": 3, "layers_per_stage": (0, 28, 0)}, {"stages": 4}),
]


@pytest.mark.parametrize(("profiled", "wanted"), LAYOUTS)
def test_another_layout(measured: Measure, profiled: dict[str, Any], wanted: dict[str, Any]) -> None:
    same = {"split_backward": profiled.get("split_backward", False), "tensor_parallel": 2}
    derived = relaid(measured(**same | profiled), wanted["stages"], wanted.get("chunks", 1), "digest")
    direct = measured(**same | wanted)
    _check_same(derived, direct)
    assert derived.metadata.workload == direct.metadata.workload
    assert derived.metadata.partition_order == direct.metadata.partition_order
    assert derived.metadata.measurement["laid_out_from"] == "digest"


def test_overlapped_partitions_and_nanobatches(measured: Measure) -> None:
    settings = {"overlap": True, "tensor_parallel": 2, "microbatch_size": 2, "comm_sms": (4,)}
    derived = relaid(measured(stages=4, **settings), 7, 2, "digest")
    _check_same(derived, measured(stages=7, chunks=2, **settings))
    assert {row.nanobatches for row in derived.rows} == {None, 1, 2}


@pytest.mark.parametrize("stages", [1, 2])
def test_the_profiles_own_layout_is_the_profile(measured: Measure, stages: int) -> None:
    profile = measured(stages=stages, layers_per_stage=(5, 23) if stages == 2 else None)
    assert relaid(profile, stages, 1, "digest") is profile


def test_what_training_adds_goes_with_it(measured: Measure) -> None:
    """Operations that take 10 % longer than their partitions, as after `calibrate`, do so in every layout."""

    def slower(profile: Profile) -> Profile:
        rows = [
            replace(row, time_s=1.1 * row.time_s) if row.level is Level.OP else row for row in profile.rows
        ]
        return replace(profile, rows=tuple(rows))

    _check_same(relaid(slower(measured(stages=4)), 2, 1, ""), slower(measured(stages=2)))


def test_a_partition_without_a_usable_row(measured: Measure) -> None:
    """What is invalid in one partition is so in every operation that runs it, and only there."""
    profile = measured(stages=4)
    rows = [
        replace(row, invalid="throttled")
        if row.sm_clock_mhz == 1200 and row.op is OpKind.FORWARD and row.partition == "embedding"
        else row
        for row in profile.rows
    ]
    derived = relaid(replace(profile, rows=tuple(rows)), 2, 1, "")
    invalid = [row for row in derived.rows if row.level is Level.OP and row.invalid is not None]
    assert [(row.stage, row.op, row.sm_clock_mhz) for row in invalid] == [(0, OpKind.FORWARD, 1200)]


def test_a_partition_without_a_row_at_a_clock(measured: Measure) -> None:
    profile = measured(stages=4)
    rows = [
        row
        for row in profile.rows
        if not (row.sm_clock_mhz == 1200 and row.op is OpKind.BACKWARD and row.partition == "head")
    ]
    derived = relaid(replace(profile, rows=tuple(rows)), 2, 1, "")
    clocks = {
        stage: [row.sm_clock_mhz for row in derived.rows if _is_backward(row) and row.stage == stage]
        for stage in (0, 1)
    }
    assert clocks == {0: [1000, 1200, 1400], 1: [1000, 1400]}


def _is_backward(row: ProfileRow) -> bool:
    return row.level is Level.OP and row.op is OpKind.BACKWARD


def test_roles(measured: Measure) -> None:
    for stages in (1, 2, 4):
        roles = source_of(measured(stages=stages, tensor_parallel=2)).roles
        extras = {(kind, name): role for (kind, name), role in roles.items() if role is not Role.LAYER}
        assert extras == {
            (OpKind.FORWARD, "embedding"): Role.FIRST,
            (OpKind.BACKWARD, "embedding"): Role.FIRST,
            (OpKind.FORWARD, "head"): Role.LAST,
            (OpKind.BACKWARD, "head_dgrad"): Role.LAST,
            (OpKind.BACKWARD, "head_wgrad"): Role.LAST,
        }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda profile: _without(profile, Level.PARTITION), "no rows of partitions"),
        (lambda profile: _with_workload(profile, layers_per_stage="14"), "2 stages and its layers_per_stage of 1 "),
        (lambda profile: _with_workload(profile, layers_per_stage="14,x"), "layers_per_stage '14,x'"),
        (lambda profile: _with_rows(profile, stage=None), "rows that serve every stage"),
        (lambda profile: _with_workload(profile, layers_per_stage="13,15"), "runs on virtual stages 0, 1"),
    ],
)  # fmt: skip
def test_profiles_that_cannot_be_laid_out_anew(
    measured: Measure, change: Callable[[Profile], Profile], words: str
) -> None:
    with pytest.raises(ProfileError, match=words):
        source_of(change(measured(stages=2)))


def test_one_virtual_stage_needs_the_order_of_partitions(measured: Measure) -> None:
    profile = measured(stages=1)
    unordered = replace(profile, metadata=replace(profile.metadata, partition_order={}))
    with pytest.raises(ProfileError, match="nothing tells whether partition embedding of backward stands"):
        source_of(unordered)


def _without(profile: Profile, level: Level) -> Profile:
    return replace(profile, rows=tuple(row for row in profile.rows if row.level is not level))


def _with_workload(profile: Profile, **settings: str) -> Profile:
    return replace(profile, metadata=replace(profile.metadata, workload=profile.metadata.workload | settings))


def _with_rows(profile: Profile, **change: Any) -> Profile:
    return replace(profile, rows=tuple(replace(row, **change) for row in profile.rows))


def test_the_split_is_the_profilers(measured: Measure) -> None:
    for layers, virtual in ((80, 1), (80, 3), (81, 16), (7, 7), (126, 32)):
        assert even_split(layers, virtual) == split_layers(layers, JobShape(stages=virtual))
        assert sum(even_split(layers, virtual)) == layers
    own = layers_of(measured(stages=2, layers_per_stage=(10, 18)).metadata)
    assert split_for(own, 2, 2, 1) == (10, 18)
    assert split_for(own, 2, 1, 2) == (14, 14)
    with pytest.raises(ProfileError, match="28 layers cannot fill 15 stages of 2 chunks"):
        split_for(own, 2, 15, 2)
