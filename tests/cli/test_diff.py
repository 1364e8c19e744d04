"""`energyopt diff`: exit codes, options, refusals; what is compared is tested in tests/planner/diff."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from energyopt.cli.diff import diff
from energyopt.cli.main import main
from energyopt.schemas.frontier import Frontier, write_frontier
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Plan, write_plan

Run = Callable[..., int]


@pytest.fixture
def run() -> Run:
    return lambda *arguments: main(["diff", *(str(one) for one in arguments)])


@pytest.fixture
def old(tmp_path: Path, small_plan: Plan) -> Path:
    write_plan(tmp_path / "old.json", small_plan)
    return tmp_path / "old.json"


@pytest.fixture
def worse(tmp_path: Path, small_plan: Plan) -> Path:
    """1 % more energy (39.75 J of 3975 J) and 1 % more time (0.09 s of 9 s)."""
    assert small_plan.predicted is not None
    predicted = replace(small_plan.predicted, energy_j=4014.75, iteration_time_s=9.09)
    write_plan(tmp_path / "worse.json", replace(small_plan, predicted=predicted))
    return tmp_path / "worse.json"


@pytest.fixture
def frontier(tmp_path: Path, small_frontier: Frontier) -> Path:
    write_frontier(tmp_path / "frontier.parquet", small_frontier)
    return tmp_path / "frontier.parquet"


def _refusal(capsys: pytest.CaptureFixture[str]) -> str:
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("energyopt: ") and printed.err.count("\n") == 1
    return printed.err


def test_a_file_against_itself_exits_with_0(run: Run, old: Path, frontier: Path) -> None:
    assert run(old, old) == 0
    assert run(old, old, "--max-energy-increase", "0%", "--max-time-increase", "0") == 0
    assert run(frontier, frontier) == 0


def test_a_change_of_partitions_is_listed_and_no_failure(
    run: Run, old: Path, small_plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tuple(tuple(replace(op, nanobatches=2) for op in ops) for ops in small_plan.stages)
    write_plan(old.with_name("cut.json"), replace(small_plan, stages=cut))
    assert run(old, old.with_name("cut.json")) == 0
    printed = capsys.readouterr().out
    assert (
        "0 of 8 operations change their clock\n8 of 8 operations change how they are carried out" in printed
    )


def test_worse_exits_with_1_however_many_findings(run: Run, old: Path, worse: Path) -> None:
    assert run(old, worse) == 1
    assert run(worse, old) == 0


@pytest.mark.parametrize(
    ("energy", "time", "code"),
    [
        ("1%", "1%", 0),
        ("39.75J", "90ms", 0),
        ("0.04kJ", "0.09", 0),
        ("0.99%", "1%", 1),
        ("1%", "0.99%", 1),
        ("39.7", "1s", 1),
    ],
)
def test_limits(run: Run, old: Path, worse: Path, *, energy: str, time: str, code: int) -> None:
    assert run(old, worse, "--max-energy-increase", energy, "--max-time-increase", time) == code


def test_a_limit_that_is_not_given_is_0(run: Run, old: Path, worse: Path) -> None:
    assert run(old, worse, "--max-energy-increase", "50%") == 1


def test_a_named_point_that_is_gone_exits_with_1(
    run: Run, frontier: Path, small_frontier: Frontier, tmp_path: Path
) -> None:
    write_frontier(tmp_path / "new.parquet", replace(small_frontier, points=small_frontier.points[:2]))
    assert run(frontier, tmp_path / "new.parquet", "--max-energy-increase", "100%") == 1


@pytest.mark.parametrize("flag", ["--max-energy-increase", "--max-time-increase"])
@pytest.mark.parametrize("value", ["-1%", "nan", "1 parsec"])
def test_bad_limits_exit_with_2(
    run: Run, old: Path, *, flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(old, old, flag, value) == 2
    assert f"{flag}: {value!r} is no increase" in _refusal(capsys)


def test_a_plan_and_a_frontier_exit_with_2(
    run: Run, old: Path, frontier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(old, frontier) == 2
    assert "is of format energyopt-plan and" in _refusal(capsys)


def test_a_profile_is_not_compared(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pipeline.toml").write_text("stages = 2\n")
    assert run(tmp_path / "pipeline.toml", tmp_path / "pipeline.toml") == 2
    assert "give two plans or two frontiers" in _refusal(capsys)


def test_an_unknown_file_exits_with_2(
    run: Run, old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").write_text("hello")
    for path in (tmp_path / "other", tmp_path / "absent"):
        assert run(old, path) == 2
        assert str(path) in _refusal(capsys)


def test_another_job_exits_with_2_unless_allowed(
    run: Run, old: Path, small_plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = Pipeline(stages=2, microbatches=4, schedule="gpipe")
    write_plan(tmp_path / "new.json", replace(small_plan, pipeline=pipeline))
    assert run(old, tmp_path / "new.json", "--allow", "schedule") == 2
    assert "microbatches is 2 and 4; --allow microbatches" in _refusal(capsys)
    assert run(old, tmp_path / "new.json", "--allow", "schedule", "--allow", "microbatches") == 0
    assert "note: different jobs, allowed: microbatches is 2 and 4" in capsys.readouterr().out


def test_an_unknown_allowance_or_format_exits_with_2(run: Run, old: Path) -> None:
    assert run(old, old, "--allow", "everything") == 2
    assert run(old, old, "--format", "xml") == 2
    assert run(old) == 2


def test_nothing_to_judge_exits_with_2_where_a_limit_was_asked_for(
    run: Run, small_plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "bare.json"
    write_plan(bare, replace(small_plan, predicted=None))
    assert run(bare, bare, "--max-energy-increase", "1%") == 2
    assert "cannot compare: OLD predicts no energy" in _refusal(capsys)
    assert run(bare, bare) == 0
    assert "not judged: neither file predicts energy or time" in capsys.readouterr().out


def test_json_is_a_format(run: Run, old: Path, worse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(old, worse, "--json") == 1
    printed = capsys.readouterr().out
    assert json.loads(printed)["worse"] is True
    assert run(old, worse, "--format", "json", "--json") == 1
    assert capsys.readouterr().out == printed
    assert run(old, worse, "--format", "markdown", "--json") == 2
    assert "--json and --format markdown contradict" in _refusal(capsys)


@pytest.mark.parametrize("chosen", ["text", "json", "markdown", "github"])
def test_brackets_in_names_and_wide_tables_survive_a_pipe(
    run: Run, old: Path, worse: Path, chosen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(old, worse, "--format", chosen) == 1
    printed = capsys.readouterr().out
    assert "GPU [bold]x[/bold]" in printed
    assert "\u2026" not in printed and "\x1b" not in printed


def test_output_to_a_file(
    run: Run, old: Path, worse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(old, worse, "--format", "markdown", "-o", tmp_path / "report.md") == 1
    printed = capsys.readouterr()
    assert printed.out == "" and "worse: 2 findings" in printed.err
    assert (tmp_path / "report.md").read_text().startswith("### energyopt diff failed\n")


def test_an_input_is_never_overwritten(
    run: Run, old: Path, worse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = worse.read_bytes()
    assert run(old, worse, "-o", worse) == 2
    assert "is an input of this command" in _refusal(capsys)
    assert worse.read_bytes() == before


def test_the_command_can_be_called_from_python(old: Path, worse: Path) -> None:
    assert diff(old, worse, max_energy_increase="1%", max_time_increase="1%") == 0
