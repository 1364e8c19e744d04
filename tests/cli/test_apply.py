"""`energyopt apply` on the small job: 9 s and 3975 J at the baseline's time, 11.25 s and 3750 J at least."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from energyopt.applier.zeus import read_zeus_list
from energyopt.schemas.frontier import Frontier, write_frontier
from energyopt.schemas.ops import OpKind
from energyopt.schemas.plan import read_plan

Energyopt = Callable[..., int]


def test_without_a_request_nothing_gets_slower(
    energyopt: Energyopt, frontier_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert energyopt("apply", frontier_file, "-o", tmp_path / "plan.json") == 0
    printed = capfd.readouterr()
    plan = read_plan(tmp_path / "plan.json")
    assert plan.predicted is not None
    assert (plan.predicted.iteration_time_s, plan.predicted.energy_j) == (9.0, 3975.0)
    assert "2 GPUs" in printed.out
    assert "-5.36 %" in printed.out  # 3975 / 4200 - 1
    assert "next slower plan, point 1" in printed.out
    assert "wrote" in printed.err


@pytest.mark.parametrize(
    ("words", "time_s"),
    [
        (("--deadline-s", 1e6), 11.25),
        (("--deadline-s", "inf"), 11.25),
        (("--max-slowdown", 1.25), 11.25),
        (("--energy-budget-j", 3980), 9.0),
        (("--power-cap-w", 334), 11.25),
        (("--point", "min_energy"), 11.25),
        (("--point", 0), 9.0),
    ],
)
def test_requests(
    energyopt: Energyopt, frontier_file: Path, tmp_path: Path, words: tuple[object, ...], time_s: float
) -> None:
    assert energyopt("apply", frontier_file, "-o", tmp_path / "plan.json", *words) == 0
    predicted = read_plan(tmp_path / "plan.json").predicted
    assert predicted is not None
    assert predicted.iteration_time_s == pytest.approx(time_s, rel=1e-12)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--deadline-s", 8), "the fastest needs 9 s; raise --deadline-s to 9.0000"),
        (("--deadline-s", "8.999999"), "in 8.999999 s: the fastest needs 9 s"),
        (("--deadline-s", "8.99999999999"), "in 8.99999999999 s: the fastest needs 9 s"),
        (("--deadline-s", "nan"), "--deadline-s needs a time above 0, not nan"),
        (("--max-slowdown", 0), "--max-slowdown needs a factor above 0, not 0"),
        (("--energy-budget-j", 1), "the least is 3750 J in 11.2500 s"),
        (("--power-cap-w", 1), "the least is 333.333 W in 11.2500 s"),
        (("--point", 99), "there is no point '99'"),
        (("--point", "1" * 5000), f"there is no point '{'1' * 40}...'; there are 0 to"),
        (("--point", 0, "--deadline-s", 9), "--deadline-s and --point were given; one of them decides"),
        (("--alternatives", -1), "--alternatives"),
        (("--format", "yaml"), "--format"),
    ],
)
def test_refusals_leave_the_earlier_file(
    energyopt: Energyopt,
    frontier_file: Path,
    tmp_path: Path,
    words: tuple[object, ...],
    expected: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "plan.json"
    target.write_text("earlier")
    assert energyopt("apply", frontier_file, "-o", target, *words) == 2
    printed = capfd.readouterr()
    assert expected in printed.err
    assert printed.out == ""
    assert target.read_text() == "earlier"


def test_alternatives(energyopt: Energyopt, frontier_file: Path, tmp_path: Path) -> None:
    assert energyopt("apply", frontier_file, "-o", tmp_path / "plan.json", "--alternatives", 2) == 0
    plan = read_plan(tmp_path / "plan.json")
    times_s = [other.predicted.iteration_time_s for other in plan.alternatives]
    assert times_s == sorted(times_s)
    assert times_s[-1] == pytest.approx(11.25, rel=1e-12)
    assert len(plan.alternatives[0].stages) == 2


def test_zeus(
    energyopt: Energyopt, frontier_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "freqs.py"
    assert energyopt("apply", frontier_file, "-o", target, "--format", "zeus", "--alternatives", 1) == 0
    assert "--alternatives is ignored" in capfd.readouterr().err
    first = read_zeus_list(target)[0]
    assert first == (
        (OpKind.FORWARD, 1400),
        (OpKind.FORWARD, 1000),
        (OpKind.BACKWARD, 1000),
        (OpKind.BACKWARD, 1400),
    )


def test_json(
    energyopt: Energyopt, frontier_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert energyopt("apply", frontier_file, "-o", tmp_path / "plan.json", "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["gpus"], found["point"]) == (2, 0)
    assert found["predicted"]["energy_j"] == 3975.0
    assert found["baselines"]["max_clock"]["energy_j"] == 4200.0


def test_a_profile_is_no_frontier(
    energyopt: Energyopt, profile_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert energyopt("apply", profile_file, "-o", tmp_path / "plan.json") == 2
    assert "not 'energyopt-frontier'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("common", "expected"),
    [(False, "no clock is common to all operations"), (True, "no clock is fast enough")],
)
def test_why_there_is_no_single_clock(
    energyopt: Energyopt,
    small_frontier: Frontier,
    tmp_path: Path,
    common: bool,
    expected: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    clocks = small_frontier.single_clocks[:1] if common else ()  # 1000 MHz, which takes 11.25 s
    write_frontier(tmp_path / "f.parquet", replace(small_frontier, single_clocks=clocks))
    assert energyopt("apply", tmp_path / "f.parquet", "-o", tmp_path / "plan.json") == 0
    assert f"best single clock in time: {expected} " in capfd.readouterr().out


def test_alternatives_that_change_more_than_clocks(
    energyopt: Energyopt,
    small_frontier: Frontier,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The slower point is cut into two parts: nothing is written for it, which is said."""
    first, *_, last = small_frontier.points
    options = {
        key: (*own, *(replace(one, nanobatches=2) for one in own))
        for key, own in small_frontier.options.items()
    }
    keys = [op.key for op in small_frontier.schedule.ops]
    choices = tuple(
        one + len(small_frontier.options[key]) for one, key in zip(last.choices, keys, strict=True)
    )
    points = (first, replace(last, choices=choices))
    write_frontier(tmp_path / "f.parquet", replace(small_frontier, options=options, points=points))
    words = ("apply", tmp_path / "f.parquet", "-o", tmp_path / "plan.json", "--point", 0)
    assert energyopt(*words) == 0
    assert "--alternatives" not in capfd.readouterr().err
    assert energyopt(*words, "--alternatives", 2) == 0
    assert "--alternatives adds none" in capfd.readouterr().err
    assert read_plan(tmp_path / "plan.json").alternatives == ()
