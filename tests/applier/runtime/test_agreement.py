"""Two real ranks of torch.distributed, which move along the frontier together or not at all, and never hang."""

import json
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.runtime import agreement

pytest.importorskip("torch", reason="needs torch: pip install energyopt[torch]")

LIMIT_S = 120.0

RANK = Path(__file__).with_name("agreement_ranks.py")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each rank ran, scenario by scenario; all in one job, since torch takes its time to load."""
    folder: Path = tmp_path_factory.mktemp("agreement")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", str(RANK), str(rank), str(folder), str(port)],
            stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    try:
        ends = [one.communicate(timeout=LIMIT_S) for one in started]
    finally:
        for one in started:
            one.kill()
    assert [one.returncode for one in started] == [0, 0], ends
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


NO_WISH = [0] * 9


@pytest.mark.parametrize(
    ("scenario", "ran"),
    [
        ("one wishes", [0, 0, 0, 0, 1, 1, 1, 0, 0]),
        ("both wish", [0, 0, 0, 0, 2, 2, 2, 1, 1]),
        ("an operator's file", [0, 0, 0, 0, 0, 2, 2, 2, 2]),
        ("and all is well again", [0, 0, 0, 0, 1, 1, 1, 0, 0]),
        ("no backend for the CPU", [0, 0, 0, 0, 1, 1, 1, 0, 0]),
        ("one does not say when it ends", [0, 0, 0, 0, 1, 1, 1, 0, 0]),
    ],
)
def test_all_ranks_move_in_the_same_iteration_the_next_one(
    ranks: list[dict[str, Any]], scenario: str, ran: list[int]
) -> None:
    """A wish of iteration 3 is everybody's from iteration 4 on."""
    for rank in ranks:
        assert rank[scenario] == {"ran": ran, "said": []}


def test_a_rank_without_the_shim_holds_up_nobody(ranks: list[dict[str, Any]]) -> None:
    """That it came to an end is the proof; the rank that has it says why nothing happens."""
    assert ranks[0]["one is off"]["ran"] == NO_WISH
    assert ranks[0]["one is off"]["said"] == [
        "the ranks cannot slow down together: not every rank runs the shim; the plan itself is run"
    ]
    assert ranks[1]["one is off"]["ran"] == NO_WISH


def test_afterwards_the_ranks_count_their_sessions_differently_and_nothing_hangs(
    ranks: list[dict[str, Any]],
) -> None:
    for rank in ranks:
        assert rank["and on again"]["ran"] == NO_WISH
        assert "not every rank runs the shim" in rank["and on again"]["said"][0]


def test_the_text_of_a_rank_that_is_off(ranks: list[dict[str, Any]]) -> None:
    """It wished something, and cannot have it."""
    (said,) = ranks[1]["one is off"]["said"]
    assert "cannot agree" in said


LIMIT_OF_RANKS_S = 1.5
ENOUGH_S = 15.0  # for a machine that is busy: the point is that nobody waits for good


@pytest.mark.parametrize(
    ("scenario", "rank", "ran"),
    [
        ("one leaves", 1, [0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0]),
        ("one fails", 0, [0, 0, 0, 0, 1, 0, 0, 0, 0]),
        ("one fails", 1, [0, 0, 0, 0, 1, 0, 0, 0, 0]),
        ("one cannot join", 0, NO_WISH),
        ("one cannot join", 1, NO_WISH),
    ],
)
def test_a_rank_that_is_left_alone_waits_once_and_gives_up(
    ranks: list[dict[str, Any]], scenario: str, rank: int, ran: list[int]
) -> None:
    """Training's own collectives, which are checked in between and afterwards, are not touched by it."""
    found = ranks[rank][scenario]
    assert found["ran"] == ran
    (said,) = found["said"]
    assert said.startswith("the ranks cannot slow down together: ")
    longest, second = ranks[rank][f"{scenario}: longest waits"]
    assert longest < LIMIT_OF_RANKS_S + ENOUGH_S
    assert second < LIMIT_OF_RANKS_S, "once"


def test_ranks_that_need_more_connections_than_there_may_be_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training would lack them."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    agreement._check_room(64)
    with pytest.raises(
        agreement.NoAgreementError, match="1000 ranks need more open files than ulimit -n 1024"
    ):
        agreement._check_room(1000)


def test_a_child_that_was_forked_with_a_group_in_it_ends(ranks: list[dict[str, Any]]) -> None:
    """The threads that the group would wait for at the interpreter's end are not in the child."""
    codes = [value for rank in ranks for name, value in rank.items() if name.endswith(": a forked child")]
    assert codes
    assert set(codes) == {5}
