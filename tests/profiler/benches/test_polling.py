import threading

import pytest

from energyopt.profiler.benches import polling
from energyopt.profiler.benches.polling import Poller, PollThread


@pytest.mark.parametrize(("took_s", "pauses_s"), [(1e-3, 0.019), (0.046, 0.046)])
def test_looks_take_at_most_half_of_the_time(
    monkeypatch: pytest.MonkeyPatch, took_s: float, pauses_s: float
) -> None:
    """Asked for every 20 ms: a driver that needs 46 ms is left alone for as long."""
    times = [100.0]
    monkeypatch.setattr(polling, "now", lambda: times[-1])
    looks: list[float] = []

    def poll(now_s: float) -> float:
        looks.append(now_s)
        times.append(now_s + took_s)
        return now_s + 0.02

    poller = Poller(poll)
    poller.visit()
    assert poller.pause_s(1.0) == pytest.approx(pauses_s)
    times.append(times[-1] + pauses_s - 1e-6)
    poller.visit()
    times.append(times[-1] + 2e-6)
    poller.visit()
    assert looks == pytest.approx([100.0, 100.0 + took_s + pauses_s + 1e-6])


def test_a_poll_that_hangs_does_not_hold_up_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "LONGEST_END_S", 0.01)
    inside, answered = threading.Event(), threading.Event()

    def poll(now_s: float) -> float:
        inside.set()
        answered.wait(60)
        return now_s

    with pytest.raises(ValueError, match="wrong"), PollThread(poll) as looks:
        looks.begin()
        assert inside.wait(60)
        raise ValueError("wrong")
    assert not answered.is_set()
    answered.set()


def test_polls_that_were_never_begun_end_at_once() -> None:
    with PollThread(lambda now_s: now_s):
        pass
    with PollThread(None) as looks:
        looks.begin()
        looks.check()
