import pytest

from energyopt.profiler.benches.feeding import Chunk, idle_share


def chunk(steps: int, took_s: float, *, fed: bool, exposed_s: float = 1.0) -> Chunk:
    return Chunk(steps=steps, took_s=took_s, fed=fed, exposed_s=exposed_s)


def test_nothing_is_idle_where_everything_was_queued_ahead() -> None:
    assert idle_share([chunk(5, 5e-3, fed=True), chunk(3, 3.5e-3, fed=True)]) == 0.0
    assert idle_share([]) == 0.0


def test_what_a_chunk_took_beyond_the_others_pace_is_idle() -> None:
    """Two steps of 1 ms in 5 ms: 3 ms idle out of 15 ms."""
    assert idle_share([chunk(10, 10e-3, fed=True), chunk(2, 5e-3, fed=False)]) == pytest.approx(3 / 15)
    assert idle_share([chunk(10, 10e-3, fed=True), chunk(2, 1.9e-3, fed=False)]) == 0.0


def test_no_more_is_idle_than_the_host_can_have_caused() -> None:
    """A first step at a lower clock took 3 ms longer, but all was queued 10 us after the start."""
    slow = chunk(2, 5e-3, fed=False, exposed_s=1e-5)
    assert idle_share([chunk(10, 10e-3, fed=True), slow]) == pytest.approx(1e-5 / 15e-3)


def test_without_a_chunk_that_was_fed_all_exposed_time_counts() -> None:
    chunks = [chunk(1, 2e-3, fed=False, exposed_s=1e-3), chunk(1, 2e-3, fed=False, exposed_s=9.0)]
    assert idle_share(chunks) == pytest.approx(3 / 4)
