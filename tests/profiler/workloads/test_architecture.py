from collections.abc import Callable

import pytest

from energyopt.profiler.workloads.architecture import Architecture, Norm, Position
from energyopt.schemas.errors import WorkloadError


def test_parameters_of_a_small_model_by_hand(tiny: Callable[..., Architecture]) -> None:
    """Per layer: 32 x 128 (q, k, v), 64 x 32 (out), 32 x 96 (gate, up), 48 x 32 (down), two norms of 32."""
    layer = 32 * 128 + 64 * 32 + 32 * 96 + 48 * 32 + 2 * 32
    assert tiny().parameters == 4 * layer + 32 + 2 * 200 * 32
    assert tiny(tie_word_embeddings=True).parameters == 4 * layer + 32 + 200 * 32
    assert tiny(qk_norm=True).parameters == tiny().parameters + 4 * 2 * 16
    assert tiny(gated_mlp=False).parameters == tiny().parameters - 4 * 32 * 48
    assert tiny(norm=Norm.LAYER).parameters == tiny().parameters + 9 * 32


def test_a_table_of_positions_counts(tiny: Callable[..., Architecture]) -> None:
    learned = tiny(position=Position.LEARNED, max_position_embeddings=64)
    assert learned.parameters == tiny().parameters + 64 * 32


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"hidden_size": 0}, "hidden_size must be at least 1, not 0"),
        ({"num_key_value_heads": 3}, "num_attention_heads 4 is not a multiple of num_key_value_heads 3"),
        ({"head_dim": 15}, "head_dim must be even to be rotated, not 15"),
        ({"position": Position.LEARNED}, "learned positions need max_position_embeddings"),
    ],
)
def test_impossible_models_are_refused(
    tiny: Callable[..., Architecture], changes: dict[str, object], problem: str
) -> None:
    with pytest.raises(WorkloadError, match=problem):
        tiny(**changes)
