from typing import Any

import pytest

from energyopt.profiler.workloads.job import JobShape, Recompute, job_shape, split_layers
from energyopt.schemas.errors import WorkloadError


@pytest.mark.parametrize(
    ("layers", "stages", "chunks", "expected"),
    [
        (8, 4, 1, (2, 2, 2, 2)),
        (9, 4, 1, (2, 3, 2, 2)),
        (10, 4, 1, (2, 3, 3, 2)),
        (11, 4, 1, (3, 3, 3, 2)),
        (28, 8, 1, (3, 4, 4, 4, 4, 3, 3, 3)),
        (6, 2, 2, (1, 2, 2, 1)),
        (5, 1, 1, (5,)),
        (3, 2, 1, (2, 1)),
    ],
)
def test_a_remainder_goes_to_the_stages_after_the_first_and_to_the_last_at_last(
    layers: int, stages: int, chunks: int, expected: tuple[int, ...]
) -> None:
    split = split_layers(layers, JobShape(stages=stages, chunks=chunks))
    assert split == expected
    assert sum(split) == layers


def test_an_uneven_split_is_taken_as_given() -> None:
    assert split_layers(7, JobShape(stages=3, layers_per_stage=(3, 4, 0))) == (3, 4, 0)


@pytest.mark.parametrize(
    ("split", "problem"),
    [
        ((3, 4), "layers_per_stage has 2 numbers; stages x chunks are 3"),
        ((3, 4, 1), "adds up to 8; the model has 7 layers"),
        ((3, 0, 4), "only the first and the last may have no layer"),
        ((8, -2, 1), "only the first and the last may have no layer"),
    ],
)
def test_splits_that_do_not_fit_are_refused(split: tuple[int, ...], problem: str) -> None:
    with pytest.raises(WorkloadError, match=problem):
        split_layers(7, JobShape(stages=3, layers_per_stage=split))


def test_more_stages_than_layers_are_refused() -> None:
    with pytest.raises(WorkloadError, match="3 layers cannot fill 2 stages of 2 chunks"):
        split_layers(3, JobShape(stages=2, chunks=2))
    with pytest.raises(WorkloadError, match="1 layer cannot fill 100 stages of 1 chunk: "):
        split_layers(1, JobShape(stages=100))


def test_settings_become_a_shape_and_none_is_not_set() -> None:
    shape = job_shape({"stages": 2, "recompute": "full", "layers_per_stage": [1, 2], "dtype": None})
    assert shape == JobShape(stages=2, recompute=Recompute.FULL, layers_per_stage=(1, 2))


def test_sequence_parallelism_comes_with_tensor_parallelism_unless_it_is_switched_off() -> None:
    assert not JobShape().shards_sequence
    assert not JobShape(sequence_parallel=True).shards_sequence
    assert JobShape(tensor_parallel=2).shards_sequence
    assert not JobShape(tensor_parallel=2, sequence_parallel=False).shards_sequence


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"stage": 2}, "unknown job setting 'stage'; known are attention, chunks"),
        ({"recompute": "some"}, "recompute 'some' is none of none, selective, full"),
        ({"attention": "flash"}, "attention 'flash' is none of fused, unfused"),
        ({"dtype": "fp8"}, "dtype 'fp8' is none of bfloat16, float16, float32"),
        ({"microbatch_size": 0}, "microbatch_size must be at least 1, not 0"),
        ({"comm_sms": [4, 4]}, "comm_sms must be distinct counts of at least 1, not 4, 4"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(WorkloadError, match=problem):
        job_shape(settings)
