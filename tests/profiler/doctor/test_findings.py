from collections.abc import Callable
from pathlib import Path

import pytest

from energyopt.applier.devices.interface import Absent, Throttle
from energyopt.applier.guard.restore import Outcome, Standing
from energyopt.profiler.doctor.findings import counter_words, lacks_of
from energyopt.profiler.doctor.records import (
    BoardReport,
    CounterHealth,
    Fact,
    Lack,
    Report,
    report_to_json,
    throttle_words,
)

HEALTHY = CounterHealth(watched_s=1.0, ticks=10, tick_s=0.1, counter_w=103.0, power_w=100.0)
Make = Callable[..., BoardReport]


def _report(*boards: BoardReport) -> Report:
    return Report(boards=boards, sick=(), facts=(), journals=())


def test_a_healthy_board_lacks_nothing(make_board: Make) -> None:
    assert lacks_of(_report(make_board(HEALTHY))) == ()


@pytest.mark.parametrize(
    ("counter", "words"),
    [
        (HEALTHY, "ticks every 100 ms, agrees with power (+3.0%)"),
        (
            CounterHealth(watched_s=1.0, ticks=50, tick_s=0.02, counter_w=60.0, power_w=100.0),
            "ticks every 20 ms, -40% against power",
        ),
        (
            CounterHealth(watched_s=1.0, ticks=50, tick_s=0.02, counter_w=60.0),
            "ticks every 20 ms, no power to compare with",
        ),
        (CounterHealth(watched_s=1.04, ticks=0), "did not move in 1.0 s"),
        (CounterHealth(watched_s=1.04, ticks=1), "moved once in 1.0 s"),
        (Absent("not supported"), "not supported"),
    ],
)
def test_the_counter_in_words(counter: CounterHealth | Absent, words: str) -> None:
    assert counter_words(counter) == words


def test_every_lack_of_a_board_comes_with_what_to_do(make_board: Make) -> None:
    still = CounterHealth(watched_s=1.0, ticks=0)
    found = lacks_of(_report(make_board(still, set_clocks="no right", temperature="blind")))
    assert [(one.subject, one.problem) for one in found] == [
        ("GPU-1", "temperature: blind"),
        ("GPU-1", "setting clocks: no right"),
        ("GPU-1", "energy counter did not move in 1.0 s"),
    ]
    assert found[1].remedy == "ask root"
    assert all(one.remedy for one in found)


def test_a_disagreement_is_a_lack(make_board: Make) -> None:
    off = CounterHealth(watched_s=1.0, ticks=10, tick_s=0.1, counter_w=120.0, power_w=100.0)
    assert "steady load" in lacks_of(_report(make_board(off)))[0].remedy


def test_journals_and_software_among_the_lacks() -> None:
    outcomes = tuple(
        Outcome(path=Path("/state/GPU-1.json"), standing=one, detail="what to do", uuid="GPU-1")
        for one in Standing
    )
    facts = (
        Fact(name="torch", found="not installed", remedy="install it"),
        Fact(name="container", found="none"),
    )
    sick = (Lack(subject="GPU", problem="lost", remedy="reset"),)
    found = lacks_of(Report(boards=(), sick=sick, facts=facts, journals=outcomes))
    assert found[0] == sick[0]
    assert [one.problem for one in found[1:-1]] == [
        f"clock journal: {one}" for one in ("stale", "other_host", "restarted", "damaged", "failed")
    ]
    assert found[-1] == Lack(subject="torch", problem="not installed", remedy="install it")


def test_json_tells_what_is_absent_with_its_reason(make_board: Make) -> None:
    value = report_to_json(_report(make_board(HEALTHY)), ())["gpus"][0]
    assert (value["temperature_c"], value["temperature_c_absent"]) == (None, "blind")
    assert value["throttle"] == ["sw power cap"]
    assert value["counter"]["disagreement"] == pytest.approx(0.03)
    assert value["capabilities"]["knob"] == "locked_clocks"


def test_throttling_in_words() -> None:
    assert throttle_words(Throttle(0x28)) == ["hw slowdown", "sw thermal"]
    assert throttle_words(Throttle(0)) == []
    assert len(throttle_words(Throttle(0x1000 | 0x1))) >= 1  # a bit that a newer driver adds
