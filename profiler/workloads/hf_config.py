"""An architecture from the names that Hugging Face configuration files use."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import NoReturn, TypeVar

from energyopt.profiler.workloads.architecture import Architecture, Norm, Position
from energyopt.profiler.workloads.hf_keys import (
    ACTIVATIONS,
    ALIASES,
    FAMILIES,
    FEATURE_ALIASES,
    MULTIMODAL,
    USED,
    Family,
    feature_of,
    is_irrelevant,
    is_off,
)
from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.nodes import Node

_Choice = TypeVar("_Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class _Config:
    """A parsed file's object, and its members that are not null, under their canonical names."""

    root: Node
    members: Mapping[str, Node]

    def count(self, name: str, default: int | None = None) -> int:
        """A positive integer; without a default it must be there."""
        if name in self.members:
            return self.members[name].integer(minimum=1)
        return self.root.field(name).integer() if default is None else default

    def flag(self, name: str, default: bool) -> bool:
        """A boolean."""
        if name not in self.members:
            return default
        value = self.members[name].value
        if not isinstance(value, bool):
            self.members[name].fail(f"expected true or false, found {value!r}")
        return bool(value)

    def choice(self, name: str, known: Mapping[str, _Choice], default: _Choice) -> _Choice:
        """One of several words."""
        if name not in self.members:
            return default
        text = self.members[name].text()
        if text not in known:
            self.members[name].fail(f"{text!r} is none of {', '.join(sorted(known))}")
        return known[text]


def read_architecture(root: Node, default_name: str) -> Architecture:
    """The architecture in a parsed file's object.

    Raises:
        FileFormatError: a key that is unknown, missing or of the wrong type, or a model that is not modelled.
        WorkloadError: sizes that contradict each other.
    """
    family = _family(root)
    config = _Config(root, _members(root))
    _refuse_windows(config)
    hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
    gated = config.flag("gated_mlp", family.gated_mlp)
    name = config.members.get("name")
    positions = config.members.get("max_position_embeddings")
    return Architecture(
        name=default_name if name is None else name.text(),
        hidden_size=hidden,
        num_hidden_layers=config.count("num_hidden_layers"),
        num_attention_heads=heads,
        num_key_value_heads=config.count("num_key_value_heads", heads),
        head_dim=_head_dim(config, hidden, heads),
        intermediate_size=config.count("intermediate_size", None if gated else 4 * hidden),
        vocab_size=config.count("vocab_size"),
        hidden_act=config.choice("hidden_act", ACTIVATIONS, family.hidden_act),
        gated_mlp=gated,
        norm=config.choice("norm", {str(one): one for one in Norm}, family.norm),
        position=config.choice("position", {str(one): one for one in Position}, family.position),
        qk_norm=config.flag("qk_norm", family.qk_norm),
        tie_word_embeddings=config.flag("tie_word_embeddings", family.tied),
        max_position_embeddings=None if positions is None else positions.integer(minimum=1),
    )


def _family(root: Node) -> Family:
    """What the model's type implies; what is not modelled is refused before anything else is looked at."""
    node = root.optional("model_type")
    kind = None if node is None else node.text()
    family = Family() if kind is None else FAMILIES.get(kind)
    features = _features(root, Family() if family is None else family)
    hint = "; give the text model's own config.json" if MULTIMODAL in features else ""
    if family is None:
        shown = f" ({', '.join(features)})" if features else ""
        _refuse(
            root, f"model_type {kind!r} is not supported{shown}; supported are {', '.join(FAMILIES)}{hint}"
        )
    if features:
        feature, reason = next(iter(features.items()))
        _refuse(root, f"{feature} is not supported ({reason}){hint}")
    return family


def _features(root: Node, family: Family) -> dict[str, str]:
    """What the file asks for that is not modelled, each with what tells."""
    rope = root.value.get("rope_parameters")  # newer files say there what part of a head is rotated
    nested = rope if isinstance(rope, dict) else {}
    given = {key: value for key, value in (nested | root.value).items() if value is not None}
    said = {FEATURE_ALIASES.get(key, key) for key in given}
    implied = {key: value for key, value in family.implied.items() if key not in said}
    found: dict[str, str] = {}
    for key, value in (given | implied).items():
        feature = feature_of(key)
        if feature is not None and not is_off(key, value):
            found.setdefault(feature, f"its model_type implies {key!r}" if key in implied else f"key {key!r}")
    return found


def _members(root: Node) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for key in root.value:
        if is_irrelevant(key) or feature_of(key) is not None:
            continue
        if key not in USED:
            _refuse(root, f"unknown key {key!r}: {_advice(key)}")
        node = root.optional(key)
        if node is None:
            continue
        other = found.setdefault(ALIASES.get(key, key), node)
        if other.value != node.value:
            node.fail(f"{key} {node.value!r} contradicts {other.path} {other.value!r}")
    return found


def _advice(key: str) -> str:
    close = get_close_matches(key, USED, n=1, cutoff=0.7)
    if not close:
        return "remove it if it changes nothing about the layers"
    return f"did you mean {ALIASES.get(close[0], close[0])!r}?"


def _refuse(root: Node, problem: str) -> NoReturn:
    """Name the file alone where the problem names the key."""
    raise FileFormatError(f"{root.file}: {problem}")


def _refuse_windows(config: _Config) -> None:
    """Attention that looks at a window of the sequence does less work than is counted here."""
    window = config.members.get("sliding_window")
    if window is not None and config.flag("use_sliding_window", True):
        window.fail(
            f"attention over a window of {window.value} tokens is not modelled; remove the key if no sequence is "
            "longer"
        )
    kinds = config.members.get("layer_types")
    for kind in kinds.items() if kinds is not None else ():
        if kind.text() != "full_attention":
            kind.fail(f"layers of type {kind.text()!r} are not modelled; full_attention is")


def _head_dim(config: _Config, hidden: int, heads: int) -> int:
    if "head_dim" not in config.members and hidden % heads:
        _refuse(
            config.root,
            f"hidden_size {hidden} is not divisible by num_attention_heads {heads}; give head_dim",
        )
    return config.count("head_dim", hidden // heads)
