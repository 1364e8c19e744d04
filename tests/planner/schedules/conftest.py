"""What the tests of every schedule use: the independent simulator, and the files that PyTorch printed."""

from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import pytest

from energyopt.planner.simulation import Timeline, simulate
from energyopt.schemas.notation import format_op
from energyopt.schemas.ops import OpKind, Schedule

Run = Callable[..., Timeline]
Orders = Callable[[Schedule], list[str]]


@pytest.fixture(scope="session")
def run() -> Run:
    """Simulate a schedule; `weight` is the time of a backward's second half where it is split."""

    def run_it(
        schedule: Schedule, forward: float = 1.0, backward: float = 2.0, weight: float = 1.0
    ) -> Timeline:
        times = {
            OpKind.FORWARD: forward,
            OpKind.BACKWARD: backward,
            OpKind.BACKWARD_INPUT: backward,
            OpKind.BACKWARD_WEIGHT: weight,
            OpKind.FORWARD_BACKWARD: forward + backward,
        }
        return simulate(schedule, [times[op.kind] for op in schedule.ops])

    return run_it


@pytest.fixture(scope="session")
def orders() -> Orders:
    """Every stage's operations in PyTorch's notation."""

    def write(schedule: Schedule) -> list[str]:
        return [" ".join(format_op(op, schedule.virtual_stages) for op in order) for order in schedule.orders]

    return write


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of PyTorch's files."""
    return Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def held_microbatches() -> Callable[[Schedule, int], int]:
    """Count the most microbatches whose activations a stage with one chunk keeps at once."""

    def count(schedule: Schedule, stage: int) -> int:
        change = {OpKind.FORWARD: 1, OpKind.BACKWARD: -1, OpKind.BACKWARD_WEIGHT: -1}
        return max(accumulate(change.get(op.kind, 0) for op in schedule.orders[stage]))

    return count
