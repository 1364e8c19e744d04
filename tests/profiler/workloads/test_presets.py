import pytest

from energyopt.profiler.workloads.presets import PRESETS


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("llama-3.2-3b", 3.21e9),  # Meta's model card
        ("llama-3.3-70b", 70.6e9),  # the 70 B of Meta's model card, to three digits as in the weights' index
        ("qwen3-1.7b", 1.72e9),  # Qwen's model card: 1.7 B, of which 1.4 B are not embeddings
        ("gpt3-xl", 1.3e9),  # Brown et al. 2020, Table 2.1
        ("gpt3-175b", 175.0e9),
    ],
)
def test_parameters_are_the_published_ones(name: str, published: float) -> None:
    digits = 0.012 if name == "gpt3-xl" else 0.003
    assert PRESETS[name].parameters == pytest.approx(published, rel=digits)


def test_qwen_has_1_4_billion_parameters_outside_its_embedding() -> None:
    qwen = PRESETS["qwen3-1.7b"]
    assert qwen.parameters - qwen.vocab_size * qwen.hidden_size == pytest.approx(1.4e9, rel=0.01)


def test_presets_are_called_by_their_keys() -> None:
    assert all(name == one.name for name, one in PRESETS.items())
