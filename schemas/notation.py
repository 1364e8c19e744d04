"""The short notation for operations: PyTorch's `<virtual stage><action><microbatch>`, as in `3F0` or `0W7`.

Actions: F forward, B full backward, I backward for the input, W backward for the weights. An operation that
runs a forward and a backward in one call is written `(3F1;3B0)OVERLAP_F_B`.
"""

import re
from collections.abc import Sequence

from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.ops import Op, OpKind

ACTIONS = {
    "F": OpKind.FORWARD,
    "B": OpKind.BACKWARD,
    "I": OpKind.BACKWARD_INPUT,
    "W": OpKind.BACKWARD_WEIGHT,
}
_LETTERS = {kind: letter for letter, kind in ACTIONS.items()}
_SINGLE = re.compile(r"([0-9]{1,9})([FBIW])([0-9]{1,9})")
_OVERLAP = re.compile(
    r"\(\s*([0-9]{1,9})F([0-9]{1,9})\s*;\s*([0-9]{1,9})B([0-9]{1,9})\s*\)\s*OVERLAP_F_B", re.ASCII
)


def format_op(op: Op, placement: Sequence[Sequence[int]]) -> str:
    """Write one operation; `placement[stage][chunk]` is its virtual stage."""
    virtual = placement[op.stage][op.chunk]
    if op.kind is not OpKind.FORWARD_BACKWARD:
        return f"{virtual}{_LETTERS[op.kind]}{op.microbatch}"
    assert op.backward_chunk is not None
    backward = placement[op.stage][op.backward_chunk]
    return f"({virtual}F{op.microbatch};{backward}B{op.backward_microbatch})OVERLAP_F_B"


def parse_op(text: str, stage: int, chunk_of: dict[int, int], where: str) -> Op:
    """Read one operation; `chunk_of` maps the virtual stages on this stage to its chunks.

    Raises:
        ScheduleError: not the notation, or a virtual stage that is not on this stage.
    """
    if (single := _SINGLE.fullmatch(text)) is not None:
        virtual, action, microbatch = single.groups()
        chunk = _chunk(int(virtual), chunk_of, text, where)
        return Op(stage=stage, chunk=chunk, microbatch=int(microbatch), kind=ACTIONS[action])
    if (overlap := _OVERLAP.fullmatch(text)) is not None:
        forward, microbatch, backward, backward_microbatch = (int(part) for part in overlap.groups())
        return Op(
            stage=stage,
            chunk=_chunk(forward, chunk_of, text, where),
            microbatch=microbatch,
            kind=OpKind.FORWARD_BACKWARD,
            backward_chunk=_chunk(backward, chunk_of, text, where),
            backward_microbatch=backward_microbatch,
        )
    raise ScheduleError(f"{where}: {text!r} is no operation such as 0F0, 3B2, 1I3 or 1W3")


def format_order(order: Sequence[Op], placement: Sequence[Sequence[int]]) -> str:
    """Write the operations of one stage, separated by blanks."""
    return " ".join(format_op(op, placement) for op in order)


def parse_order(text: str, stage: int, placement: Sequence[Sequence[int]], where: str) -> tuple[Op, ...]:
    """Read what `format_order` wrote."""
    chunk_of = {virtual: chunk for chunk, virtual in enumerate(placement[stage])}
    return tuple(parse_op(word, stage, chunk_of, where) for word in text.split())


def _chunk(virtual: int, chunk_of: dict[int, int], text: str, where: str) -> int:
    if virtual not in chunk_of:
        raise ScheduleError(f"{where}: {text!r} names virtual stage {virtual}, which is not on this rank")
    return chunk_of[virtual]
