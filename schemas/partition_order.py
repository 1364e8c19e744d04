"""In which order the partitions of an operation run: profile rows, which are sorted, cannot tell."""

from typing import Any

from energyopt.schemas.nodes import Node
from energyopt.schemas.ops import OpKey, OpKind

PartitionOrder = dict[OpKey, tuple[str, ...]]
"""The partitions of each operation in execution order, each once however often it runs."""


def order_to_json(order: PartitionOrder) -> list[dict[str, Any]]:
    """One object for each operation."""
    return [
        {"stage": key.stage, "chunk": key.chunk, "op": str(key.kind), "partitions": list(names)}
        for key, names in sorted(order.items())
    ]


def order_from_json(node: Node | None) -> PartitionOrder:
    """The counterpart of `order_to_json`; nothing where there is no such member.

    Raises:
        FileFormatError: an unknown operation, or one that is there twice, or a partition that is; names the field.
    """
    found: PartitionOrder = {}
    for member in () if node is None else node.items():
        kind = member.field("op").text()
        if kind not in list(OpKind):
            member.field("op").fail(f"{kind!r} is none of {', '.join(OpKind)}")
        key = OpKey(member.field("stage").integer(0), member.field("chunk").integer(0), OpKind(kind))
        names = tuple(name.text() for name in member.field("partitions").items())
        if key in found or len(set(names)) < len(names):
            member.fail(f"the {key} stands there twice, or one of its partitions does")
        found[key] = names
    return found
