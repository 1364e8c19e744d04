"""Two processes run partitions with their communication beside compute kernels: order of calls, and results."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

SCRIPT = Path(__file__).with_name("two_ranks.py")
LIMIT_S = 120.0  # for a machine that is busy with other things
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "send_recv")
LAUNCHES = ("norm", "product", "rope")
COMPUTE = ["norm", "product", "product", "rope"]

Found = list[dict[str, Any]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What each rank wrote."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, str(SCRIPT)]
    ranks = [
        subprocess.Popen([*command, str(rank), str(folder)], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=LIMIT_S)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_the_communication_runs_first_or_from_its_launch_to_the_end(found: Found, collective: str) -> None:
    for one in found:
        assert one[f"{collective} None"]["events"] == ["talk", *COMPUTE]
        for launch in LAUNCHES:
            place = COMPUTE.index(launch)
            expected = [*COMPUTE[:place], "start", *COMPUTE[place:], "wait"]
            assert one[f"{collective} {launch}"]["events"] == expected


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_results_are_those_of_the_plain_order_bit_for_bit(found: Found, collective: str) -> None:
    for one in found:
        plain = one[f"{collective} None"]
        for launch in LAUNCHES:
            other = one[f"{collective} {launch}"]
            assert (other["computed"], other["tensors"]) == (plain["computed"], plain["tensors"])


@pytest.mark.parametrize("launch", [None, *LAUNCHES])
def test_every_rank_ends_with_what_the_collective_should_give(found: Found, launch: str | None) -> None:
    def tensors(collective: str) -> list[Any]:
        return [one[f"{collective} {launch}"]["tensors"] for one in found]

    drawn = [_drawn(rank) for rank in range(2)]
    most = [max(pair) for pair in zip(drawn[0][:16], drawn[1][:16], strict=True)]
    assert tensors("all_reduce") == [[most], [most]]
    whole = drawn[0][16:24] + drawn[1][16:24]
    assert [gathered for gathered, _ in tensors("all_gather")] == [whole, whole]
    for rank, (_, share) in enumerate(tensors("reduce_scatter")):
        own = slice(8 * rank, 8 * rank + 8)
        expected = (torch.tensor(drawn[0][own]) + torch.tensor(drawn[1][own])).tolist()
        assert share == expected
    for rank, (_, received) in enumerate(tensors("send_recv")):
        assert received == drawn[1 - rank][:16]


def _drawn(rank: int) -> list[float]:
    """What a rank's communication tensors hold at first: drawn after two matrices for each compute kernel."""
    torch.manual_seed(rank)
    for _ in range(2 * len(LAUNCHES)):
        torch.randn(8, 8)
    values: list[float] = torch.randn(16).tolist() + torch.randn(8).tolist()
    return values


def test_compute_kernels_run_while_the_communication_is_under_way(found: Found) -> None:
    """It cannot have ended when rank 0 computed: rank 1 had yet to begin it."""
    assert [one["together"] for one in found] == [["start", "wait"]] * 2
