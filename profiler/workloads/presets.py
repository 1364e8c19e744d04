"""Models that are known by name, with the figures their makers published."""

from energyopt.profiler.workloads.architecture import Activation, Architecture, Norm, Position

# Meta's and Qwen's models: the config.json beside the published weights (meta-llama/Llama-3.2-3B,
# meta-llama/Llama-3.3-70B-Instruct, Qwen/Qwen3-1.7B).
_LLAMA_3B = Architecture(
    name="llama-3.2-3b",
    hidden_size=3072,
    num_hidden_layers=28,
    num_attention_heads=24,
    num_key_value_heads=8,
    head_dim=128,
    intermediate_size=8192,
    vocab_size=128256,
    tie_word_embeddings=True,
)
_LLAMA_70B = Architecture(
    name="llama-3.3-70b",
    hidden_size=8192,
    num_hidden_layers=80,
    num_attention_heads=64,
    num_key_value_heads=8,
    head_dim=128,
    intermediate_size=28672,
    vocab_size=128256,
)
_QWEN_1_7B = Architecture(
    name="qwen3-1.7b",
    hidden_size=2048,
    num_hidden_layers=28,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    intermediate_size=6144,
    vocab_size=151936,
    qk_norm=True,
    tie_word_embeddings=True,
)


def _gpt3(name: str, hidden_size: int, layers: int) -> Architecture:
    """A model of Table 2.1 of Brown et al., "Language Models are Few-Shot Learners" (2020), heads of 128.

    The table gives "XL" 24 heads of 128 beside a width of 2048, which contradict each other; 16 heads match the
    width and the 1.3 B parameters that the table states.
    """
    return Architecture(
        name=name,
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=hidden_size // 128,
        num_key_value_heads=hidden_size // 128,
        head_dim=128,
        intermediate_size=4 * hidden_size,
        vocab_size=50257,
        hidden_act=Activation.GELU,
        gated_mlp=False,
        norm=Norm.LAYER,
        position=Position.LEARNED,
        tie_word_embeddings=True,
        max_position_embeddings=2048,
    )


_ALL = (_LLAMA_3B, _LLAMA_70B, _QWEN_1_7B, _gpt3("gpt3-xl", 2048, 24), _gpt3("gpt3-175b", 12288, 96))

PRESETS: dict[str, Architecture] = {one.name: one for one in _ALL}
"""By name, as given on the command line."""
