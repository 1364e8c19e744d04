"""What passes between the helper and the training process that started it."""

import json
import os
from dataclasses import asdict, is_dataclass
from typing import Any

from energyopt.applier.helper.board import Board
from energyopt.applier.helper.orders import READY


def first_line() -> bytes:
    """The orders, from standard input; empty where the parent ended before it had said anything."""
    said = b""
    while not said.endswith(b"\n"):
        piece = os.read(0, 1 << 20)
        if not piece:
            return b""
        said += piece
    return said


def say_ready(board: Board) -> None:
    """Answer, then hold nothing of the parent's pipe open."""
    answer = {"held": board.held is not None, "problems": board.problems, "board": describe(board)}
    print(READY + json.dumps(answer), flush=True)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def describe(board: Board) -> dict[str, Any] | None:
    """What is known of the board; None where there is none."""
    if board.device is None:
        return None
    identity = board.device.identity
    assert is_dataclass(identity)
    return {key: value for key, value in asdict(identity).items() if value is not None}
