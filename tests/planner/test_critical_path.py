"""Which operations an iteration waits for; expected sets follow from the timelines in tests/conftest.py."""

import pytest

from energyopt.planner.critical_path import critical_ops
from energyopt.planner.simulation import simulate
from energyopt.schemas.frontier import Frontier

FAST = (1.0, 1.0, 2.0, 2.0, 1.0, 2.0, 1.0, 2.0)  # F0 F1 B0 B1 of stage 0, F0 B0 F1 B1 of stage 1


def _names(frontier: Frontier, times: tuple[float, ...], p2p_time_s: float = 0.0) -> set[str]:
    timeline = simulate(frontier.schedule, times, p2p_time_s)
    ops = frontier.schedule.ops
    return {
        f"s{ops[i].stage}{ops[i].kind[0].upper()}{ops[i].microbatch}"
        for i in critical_ops(frontier.schedule, timeline, p2p_time_s)
    }


def test_the_longest_path_at_the_highest_clock(small_frontier: Frontier) -> None:
    assert _names(small_frontier, FAST) == {"s0F0", "s1F0", "s1B0", "s1F1", "s1B1", "s0B1"}


def test_a_start_that_equals_an_unrelated_finish_does_not_count(small_frontier: Frontier) -> None:
    """F1 of stage 0 ends at 2 s, just when B0 of stage 1 starts, and has nothing to do with it."""
    timeline = simulate(small_frontier.schedule, FAST)
    assert timeline.finish_s[1] == timeline.start_s[5] == 2.0
    assert 1 not in critical_ops(small_frontier.schedule, timeline)


def test_parallel_longest_paths_are_all_found(small_frontier: Frontier) -> None:
    """B0 of stage 0 slowed by exactly its second to spare: 4-7 s, then B1 starts at 7 s as before."""
    slowed = (*FAST[:2], 3.0, *FAST[3:])
    assert _names(small_frontier, slowed) == {"s0F0", "s1F0", "s1B0", "s0B0", "s1F1", "s1B1", "s0B1"}


@pytest.mark.parametrize("p2p_time_s", [0.1, 0.3])
def test_transfers_lie_between_stages(small_frontier: Frontier, p2p_time_s: float) -> None:
    """0.1 and 0.3 have no exact binary value, so sums differ in the last bit."""
    assert _names(small_frontier, FAST, p2p_time_s) == {"s0F0", "s1F0", "s1B0", "s1F1", "s1B1", "s0B1"}


def test_a_late_forward_takes_over(small_frontier: Frontier) -> None:
    """F1 of stage 0 ends at 6 s, B1 of stage 1 at 9 s; B0 of stage 0 ends at 8 s and has 1 s to spare."""
    slowed = (1.0, 5.0, *FAST[2:])
    assert _names(small_frontier, slowed) == {"s0F0", "s0F1", "s1F1", "s1B1", "s0B1"}
