"""Which layouts lists combine to: sizes divide exactly, and what makes no layout is listed with the reason."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from energyopt.planner.sweep.layouts import expand, names_of
from energyopt.schemas.errors import ProfileError, RequestError
from energyopt.schemas.profile import Profile
from energyopt.schemas.sweep_request import SweepRequest

Measure = Callable[..., Profile]


def _request(**settings: Any) -> SweepRequest:
    some = {"folder": Path(), "profiles": ("p",), "gpus": (16,), "global_batch": 32, "stages": (2, 4)}
    return SweepRequest(**(some | settings))


@pytest.fixture(scope="module")
def profile(measured: Measure) -> Profile:
    """llama-3.2-3b: 28 layers; tensor degree 2, microbatches of one sequence."""
    return measured(stages=2, tensor_parallel=2)


def test_degrees_and_microbatches_follow_from_gpus_and_batch(profile: Profile) -> None:
    """16 GPUs / (2 x 4) are 2 replicas of 32 / 2 = 16 microbatches; on two stages 4 replicas of 8."""
    layouts, left_out = expand(_request(gpus=(16, 32)), {"p": profile})
    assert not left_out
    sizes = [(one.gpus, one.stages, one.data_parallel, one.microbatches) for one in layouts]
    assert sizes == [(16, 2, 4, 8), (16, 4, 2, 16), (32, 2, 8, 4), (32, 4, 4, 8)]
    assert all(
        one.data_parallel * one.microbatches * one.microbatch_size == 32 and one.tensor_parallel == 2
        for one in layouts
    )
    assert layouts[1].layers_per_stage == (7, 7, 7, 7)


def test_every_reason(profile: Profile) -> None:
    wanted = _request(
        stages=(2, 3, 8, 16),
        schedules=("1f1b", "interleaved-1f1b", "zb-h1"),
        chunks=(1, 4),
        global_batch=12,
        microbatches=(12,),
    )
    layouts, left_out = expand(wanted, {"p": profile})
    assert [one.name for one in layouts] == ["tp2 pp8 dp1 mb1x12 1f1b"]
    reasons = {one.combination: one.reason for one in left_out}
    assert len(reasons) == len(left_out) == 4 * 3 * 2 - 1
    assert reasons["p pp3x1 1f1b on 16 GPUs"] == "16 GPUs do not divide into replicas of 6"
    assert "schedule 1f1b has no model chunks" in reasons["p pp2x4 1f1b on 16 GPUs"]
    assert reasons["p pp2x1 interleaved-1f1b on 16 GPUs"] == "with one chunk it is 1f1b, which is there"
    assert reasons["p pp2x1 1f1b on 16 GPUs"] == "3 microbatches are none of those asked for"
    assert reasons["p pp8x4 interleaved-1f1b on 16 GPUs"] == "28 layers cannot fill 8 stages of 4 chunks"
    assert reasons["p pp8x1 zb-h1 on 16 GPUs"] == (
        "the profile has no rows of backward_input and backward_weight"
    )
    batch = expand(_request(global_batch=6), {"p": profile})[1]
    assert [one.reason for one in batch] == ["6 sequences do not divide into microbatches of 1 on 4 replicas"]


def test_interleaving_one_chunk_stays_where_1f1b_is_not(profile: Profile) -> None:
    layouts, _ = expand(_request(schedules=("interleaved-1f1b",)), {"p": profile})
    assert len(layouts) == 2


def test_sharded_weights_keep_the_replicas_that_were_measured(measured: Measure) -> None:
    """Gathering weights among 4 replicas costs what it was measured at for 4."""
    profile = measured(stages=2, data_parallel=4)
    layouts, left_out = expand(_request(gpus=(8,), stages=(2, 4)), {"p": profile})
    assert [one.data_parallel for one in layouts] == [4]
    assert left_out[0].reason == (
        "weights were sharded over 4 replicas when it was profiled, the layout has 2"
    )


def test_no_layout_at_all(profile: Profile) -> None:
    with pytest.raises(RequestError, match="none of the 1 combinations makes a layout: p pp3x1 1f1b on 16"):
        expand(_request(stages=(3,)), {"p": profile})


def test_an_unknown_schedule(profile: Profile) -> None:
    with pytest.raises(RequestError, match="unknown schedule 'zb-v': a sweep knows gpipe, 1f1b"):
        expand(_request(schedules=("zb-v",)), {"p": profile})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"device_name": "other"}, "their device name is other and test"),
        ({"workload": {"sequence_length": 1}}, "their sequence length is 1 and 2048"),
        ({"workload": {"model": "other"}}, "their model is other and"),
    ],
)
def test_profiles_that_cannot_be_ranked_together(
    profile: Profile, change: dict[str, Any], words: str
) -> None:
    metadata = profile.metadata
    if "workload" in change:
        change = {"workload": metadata.workload | change["workload"]}
    other = replace(profile, metadata=replace(metadata, **change))
    with pytest.raises(RequestError, match=f"q and p cannot be ranked together: {words}"):
        expand(_request(profiles=("p", "q")), {"p": profile, "q": other})


@pytest.mark.parametrize("name", ["microbatch_size", "sequence_length", "layers_per_stage"])
def test_a_profile_that_says_too_little(profile: Profile, name: str) -> None:
    workload = {key: value for key, value in profile.metadata.workload.items() if key != name}
    bare = replace(profile, metadata=replace(profile.metadata, workload=workload))
    with pytest.raises(ProfileError, match=f"p: the profile's workload has .*{name}"):
        expand(_request(), {"p": bare})


def test_names_tell_profiles_of_one_shape_apart(profile: Profile) -> None:
    layouts, _ = expand(
        _request(profiles=("a/one.parquet", "b.parquet"), stages=(2,)),
        {"a/one.parquet": profile, "b.parquet": profile},
    )
    assert names_of(layouts) == ["tp2 pp2 dp4 mb1x8 1f1b (one)", "tp2 pp2 dp4 mb1x8 1f1b (b)"]
