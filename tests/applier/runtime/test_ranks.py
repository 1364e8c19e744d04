"""Which stage and board a loop of one's own has, as its launcher tells."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.helper.orders import Orders
from energyopt.applier.runtime import opening, ranks
from energyopt.applier.runtime.opening import open_session
from energyopt.schemas.plan import Plan, write_plan

MakePlan = Callable[..., Plan]


class StopError(Exception):
    """Where a helper would start."""


@pytest.fixture
def told(make_plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`told({"RANK": "1"}, stages=2, stage=0)`: the orders that a loop's helper is given, or None."""

    def start(environment: dict[str, str], stages: int = 2, stage: int | None = None) -> Orders | None:
        given: list[Orders] = []

        def take(orders: Orders) -> None:
            given.append(orders)
            raise StopError

        for name in (*ranks._RANK, *ranks._WORLD_SIZE, *ranks._LOCAL_RANK, "CUDA_VISIBLE_DEVICES"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(opening, "start_helper", take)
        write_plan(tmp_path / "plan.json", make_plan(stages=stages))
        open_session(tmp_path / "plan.json", stage=stage).step()
        return given[0] if given else None

    return start


def torchrun(rank: int, size: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}


@pytest.mark.parametrize(
    ("rank", "size", "stages", "stage", "expected"),
    [(1, 2, 2, None, 1), (3, 4, 2, 0, 0), (3, 4, 1, None, 0)],
)
def test_a_rank_for_each_stage_needs_no_stage(
    told: Callable[..., Any], rank: int, size: int, stages: int, stage: int | None, expected: int
) -> None:
    orders = told(torchrun(rank, size), stages, stage)
    assert (orders.header["stage"], orders.header["world_size"], orders.apply) == (expected, size, True)


def test_any_other_way_of_placing_stages_is_not_guessed(
    told: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(torchrun(3, 4)) is None
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        "which of the plan's 2 stages rank 3 of 4 runs cannot be told; give open_session(stage=...)" in line
    )


def test_a_world_that_holds_no_whole_replicas(
    told: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert not told(torchrun(1, 3), stage=1).apply
    assert "= 2 ranks or a multiple of them, the run has 3: clocks are left alone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("environment", "device"),
    [
        ({"LOCAL_RANK": "1"}, "1"),
        ({"SLURM_LOCALID": "3"}, "3"),
        ({"SLURM_LOCALID": "3", "CUDA_VISIBLE_DEVICES": "3"}, "0"),
        ({"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"}, "1"),
        ({}, "0"),
    ],
)
def test_the_board_is_the_launchers(
    told: Callable[..., Any], environment: dict[str, str], device: str
) -> None:
    assert told(environment, stages=1).device == device


def test_a_batch_script_is_not_all_of_its_tasks() -> None:
    assert ranks.world_size({"SLURM_NTASKS": "64"}) == 1
    assert ranks.world_size({"SLURM_NTASKS": "64", "SLURM_STEP_NUM_TASKS": "64"}) == 64
