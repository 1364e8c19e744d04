"""What each output format prints; names full of markup must come out as they are."""

import json
from dataclasses import replace

import pytest

from energyopt.planner.diff.compare import compare_frontiers
from energyopt.planner.diff.formats import RENDERERS, Format
from energyopt.planner.diff.github import escape_data, escape_property
from energyopt.planner.diff.interface import Report
from energyopt.planner.diff.markdown import escape
from energyopt.planner.diff.thresholds import Limits, judge
from energyopt.schemas.frontier import Frontier


def test_every_format_has_a_renderer() -> None:
    assert set(RENDERERS) == set(Format)


@pytest.mark.parametrize("chosen", list(Format))
def test_brackets_are_printed_as_they_are(worse_report: Report, chosen: Format) -> None:
    text = RENDERERS[chosen](worse_report)
    assert "[bold]x[/bold]" in text
    assert text.endswith("\n")


@pytest.mark.parametrize("chosen", [Format.TEXT, Format.MARKDOWN, Format.GITHUB])
def test_totals_say_how_many_gpus_they_cover(worse_report: Report, chosen: Format) -> None:
    assert "totals cover 2 GPUs" in RENDERERS[chosen](worse_report)


@pytest.mark.parametrize("chosen", list(Format))
def test_a_new_profile_is_mentioned(worse_report: Report, chosen: Format) -> None:
    assert "made from different profiles: abababababab and cdcdcdcdcdcd" in RENDERERS[chosen](worse_report)


def test_text_rounds_and_aligns(worse_report: Report) -> None:
    lines = RENDERERS[Format.TEXT](worse_report).splitlines()
    energy = next(line for line in lines if "energy, J" in line)
    assert energy.split() == ["predicted", "energy,", "J", "3975.0", "4040.0", "+65.0", "+1.64", "%"]
    table = lines[lines.index(next(line for line in lines if line.startswith("energy and time"))) + 1 :]
    assert len({len(line) for line in table[:9]}) == 1
    assert "1 of 8 operations change their clock" in lines
    assert lines[0].startswith(r"plan new.json against old.json: A|B [bold]x[/bold] 100%\nC (simulated)")
    assert lines[-1] == "  predicted: energy_j 3975.0 J -> 4040.0 J (+65.0 J, +1.64 %), limit +0 %"


def test_json_keeps_full_precision(worse_report: Report) -> None:
    found = json.loads(RENDERERS[Format.JSON](worse_report))
    energy = found["groups"][0]["changes"]["energy_j"]
    assert energy == {"old": 3975.0, "new": 4040.0, "absolute": 65.0, "relative": 65.0 / 3975.0}
    assert found["new"]["gpus"] == 2
    assert found["worse"] is True
    assert [failure["quantity"] for failure in found["failures"]] == ["energy_j"]
    assert found["new"]["device"]["name"] == "A|B [bold]x[/bold] 100%\nC"


def test_markdown_rows_have_as_many_cells_as_the_header(worse_report: Report) -> None:
    text = RENDERERS[Format.MARKDOWN](worse_report)
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) == 2
    for table in tables:
        assert len({line.count("|") for line in table}) == 1
    assert r"A\|B [bold]x[/bold]" in text


def test_markdown_escapes() -> None:
    assert escape("a|b") == r"a\|b"
    assert escape("<b>") == r"\<b\>"
    assert escape("[a](b)") == r"[a]\(b)"
    assert escape("two\nlines") == r"two\\nlines"


def test_github_commands_stand_on_one_line_each(worse_report: Report) -> None:
    lines = RENDERERS[Format.GITHUB](worse_report).splitlines()
    assert [line.split(" ", 1)[0] for line in lines] == ["::error", "::warning", "::notice"]
    assert lines[0] == (
        "::error title=energyopt diff::predicted: "
        "energy_j 3975.0 J -> 4040.0 J (+65.0 J, +1.64 %25), limit +0 %25"
    )
    assert "100%25%0AC" in lines[2]


def test_github_escapes() -> None:
    assert escape_data("50%\r\na:b,c") == "50%25%0D%0Aa:b,c"
    assert escape_property("50%\r\na:b,c") == "50%25%0D%0Aa%3Ab%2Cc"


def test_a_deadline_that_no_point_meets_is_reported(small_frontier: Frontier) -> None:
    new = replace(small_frontier, points=small_frontier.points[1:])
    comparison = compare_frontiers(small_frontier, new, allow=frozenset())
    report = Report(
        old_file="a",
        new_file="b",
        comparison=comparison,
        limits=Limits(),
        failures=judge(comparison, Limits()),
    )
    lines = RENDERERS[Format.TEXT](report).splitlines()
    assert next(line for line in lines if line.startswith("9.0000")).split() == (
        ["9.0000", "3975.0", "no", "point", "is", "as", "fast", "-", "-"]
    )
    assert "  fastest: NEW has no point of this name" in lines
