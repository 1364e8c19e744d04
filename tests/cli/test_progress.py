"""Lines of progress where there is no terminal, on a clock that the test moves."""

import pytest

from energyopt.cli import progress
from energyopt.cli.progress import reporting


class Clock:
    """A clock to be set by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_each_step_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    with reporting() as tell:
        for step, share in (("cutting", 0.0), ("cutting", 0.1), ("sewing", 0.5)):
            tell(step, share)
    assert capfd.readouterr() == ("", "cutting (0% done)\nsewing (50% done)\n")


def test_long_work_tells_how_long_the_rest_takes(clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
    """30 s of preparation do not count; then 1 % takes 4 s: at 6, 51 and 99 % there are 376, 196 and 4 s left."""
    with reporting(time_left=True) as tell:
        tell("preparing", 0.0)
        clock.now_s += 30
        for percent in range(100):
            tell(f"part {percent}", percent / 100)
            clock.now_s += 4
        tell("tidying up", 1.0)
    lines = capfd.readouterr().err.splitlines()
    assert lines[:2] == ["preparing (0% done)", "part 0 (0% done)"]
    assert "part 6 (6% done, about 6 min left)" in lines
    assert "part 51 (51% done, about 3 min left)" in lines
    assert "part 99 (99% done, about 4 s left)" in lines
    assert len(lines) == 2 + 33  # one in 12 s at most, and nothing more often than each 10 s
    assert not any("\r" in line or "\x1b" in line for line in lines)


def test_what_was_there_already_does_not_make_the_rest_look_quick(
    clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    """Half of it is found done in an instant; of the rest, 1 % takes 20 s: 55 % done leaves 900 s."""
    with reporting(time_left=True) as tell:
        for percent in range(51):
            tell(f"part {percent}", percent / 100)
            clock.now_s += 0.001
        for percent in range(51, 56):
            clock.now_s += 20
            tell(f"part {percent}", percent / 100)
    assert capfd.readouterr().err.splitlines()[-1] == "part 55 (55% done, about 15 min left)"


def test_nobody_listens(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    with reporting(time_left=True) as tell:
        tell("alone", 0.0)
        clock.now_s += 60
        tell("alone", 1.0)
