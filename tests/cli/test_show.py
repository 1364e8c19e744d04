"""`energyopt show`: every kind of file, as tables and as JSON, and pictures."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from energyopt.applier.zeus import zeus_text
from energyopt.cli.main import main
from energyopt.planner.views.frontier import POINT_COLUMNS
from energyopt.schemas.files import canonical_json
from energyopt.schemas.frontier import Frontier, write_frontier
from energyopt.schemas.plan import Plan, plan_text, write_plan
from energyopt.schemas.profile import Profile, write_profile

Run = Callable[..., int]
KINDS = ("frontier.parquet", "plan.json", "pipeline.toml", "profile.parquet", "zeus.py")


@pytest.fixture
def run() -> Run:
    return lambda *arguments: main(["show", *(str(one) for one in arguments)])


@pytest.fixture
def files(tmp_path: Path, small_frontier: Frontier, small_plan: Plan, small_profile: Profile) -> Path:
    write_frontier(tmp_path / "frontier.parquet", small_frontier)
    write_plan(tmp_path / "plan.json", small_plan)
    write_profile(tmp_path / "profile.parquet", small_profile)
    (tmp_path / "zeus.py").write_text(zeus_text(small_plan))
    (tmp_path / "pipeline.toml").write_text('stages = 4\nschedule = "gpipe"\n')
    return tmp_path


@pytest.mark.parametrize("name", KINDS)
def test_tables_are_whole_when_piped(
    run: Run, files: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(files / name) == 0
    printed = capsys.readouterr().out
    assert "\u2026" not in printed and "\x1b" not in printed
    if name not in ("pipeline.toml", "zeus.py"):
        assert "GPU [bold]x[/bold]" in printed
    if name == "frontier.parquet":
        header = next(line for line in printed.splitlines() if line.startswith("point "))
        assert all(column in header for column in POINT_COLUMNS)
        assert "points (2 GPUs)" in printed


@pytest.mark.parametrize("name", KINDS)
def test_json_is_one_canonical_object(
    run: Run, files: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(files / name, "--json") == 0
    printed = capsys.readouterr().out
    assert printed == canonical_json(json.loads(printed))


def test_the_json_of_a_plan_is_its_file(
    run: Run, files: Path, small_plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    run(files / "plan.json", "--json")
    assert capsys.readouterr().out == plan_text(small_plan)


def test_a_plot_is_written(run: Run, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files / "frontier.parquet", "--plot", files / "f.png") == 0
    assert (files / "f.png").read_bytes().startswith(b"\x89PNG")
    assert f"wrote {files / 'f.png'}\n" in capsys.readouterr().err
    assert not list(files.glob(".*"))  # no temporary file stays


@pytest.mark.parametrize("point", ["1", "min_energy"])
def test_a_timeline_is_written(run: Run, files: Path, point: str) -> None:
    assert run(files / "frontier.parquet", "--json", "--timeline", point, files / "t.svg") == 0
    assert b"<svg" in (files / "t.svg").read_bytes()


@pytest.mark.parametrize("point", ["3", "-1", "fast", "1.0", ""])
def test_a_point_that_does_not_exist_is_refused(
    run: Run, files: Path, point: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(files / "frontier.parquet", "--timeline", point, files / "t.png") == 2
    printed = capsys.readouterr()
    assert f"there is no point {point!r}; there are 0 to 2, fastest, max_clock_time, best_edp" in printed.err
    assert printed.out == "" and not (files / "t.png").exists()


def test_nothing_is_drawn_where_part_of_the_request_is_refused(run: Run, files: Path) -> None:
    arguments = ("--plot", files / "f.png", "--timeline", "99", files / "t.png")
    assert run(files / "frontier.parquet", *arguments) == 2
    assert not (files / "f.png").exists()


@pytest.mark.parametrize("arguments", [("--plot",), ("--timeline", "0")])
@pytest.mark.parametrize("name", ["x.jpg", "x.parquet", "x"])
def test_other_pictures_are_refused(
    run: Run, files: Path, arguments: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(files / "frontier.parquet", *arguments, files / name) == 2
    assert "pictures are written as .png, .svg, .pdf" in capsys.readouterr().err
    assert not (files / name).exists()


def test_a_plan_has_no_timeline(run: Run, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files / "plan.json", "--timeline", "0", files / "t.png") == 2
    assert "holds clocks and no times; give --timeline the frontier" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["plan.json", "profile.parquet", "pipeline.toml"])
def test_only_a_frontier_is_plotted(
    run: Run, files: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(files / name, "--plot", files / "f.png") == 2
    assert "--plot draws a frontier, and" in capsys.readouterr().err


def test_a_folder_that_does_not_exist_is_refused(
    run: Run, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(files / "frontier.parquet", "--plot", files / "absent" / "f.png") == 2
    assert "cannot write" in capsys.readouterr().err


def test_a_list_for_zeus(run: Run, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stage 0 runs F0 F1 B0 B1 at 1400, 1000, 1000 and 1400 MHz, stage 1 everything at 1400."""
    assert run(files / "zeus.py") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert ["0", "forward", "2", "1000", "1200.0", "1400"] in rows
    assert ["1", "backward", "2", "1400", "1400.0", "1400"] in rows
    assert run(files / "zeus.py", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["stages"][0][1] == ["forward", 1000]
    assert found["clocks"][0]["mean_mhz"] == 1200.0


def test_the_power_of_a_point(run: Run, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Point 0 draws 500 W while both stages run, one of them at 1000 MHz; 3975 J in 9 s."""
    picture = files / "p.svg"
    assert run(files / "frontier.parquet", "--power", "fastest", picture, "--gpus-per-node", 1) == 0
    assert b"<svg" in picture.read_bytes()
    printed = capsys.readouterr().out.splitlines()
    place = printed.index("power of point 0")
    assert printed[place + 2].split() == ["one", "pipeline", "2", "441.7", "500.0"]
    assert "power of each node of 1 GPU" in printed[place + 4]
    assert [line.split()[:3] for line in printed[place + 6 :]] == [["0", "0", "1"], ["1", "1", "1"]]


def test_the_power_of_a_point_as_json(run: Run, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files / "frontier.parquet", "--json", "--power", "0", files / "p.png") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["power"]["gpus"] == 2 and found["power"]["gpus_per_node"] == 8
    assert found["power"]["average_power_w"] == pytest.approx(3975 / 9)
    assert [node["gpus"] for node in found["power"]["nodes"]] == [2]


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--gpus-per-node", "4"), "--gpus-per-node says something with --power alone"),
        (("--power", "9", "p.png"), "there is no point '9'"),
        (("--power", "0", "p.jpg"), "pictures are written as .png, .svg, .pdf"),
        (("--power", "0", "p.png", "--gpus-per-node", "0"), "--gpus-per-node"),
        (("--power", "0", "p.png", "--timeline", "0", "p.png"), "--timeline and --power would both write"),
        (("--power", "0", "frontier.parquet"), "is an input of this command; give another file to --power"),
    ],
)
def test_power_that_cannot_be_shown(
    run: Run,
    files: Path,
    flags: tuple[str, ...],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(files)
    assert run("frontier.parquet", *flags) == 2
    printed = capsys.readouterr()
    assert complaint in printed.err and printed.out == ""
    assert not list(files.glob("p.*"))


def test_only_a_frontiers_power_is_drawn(run: Run, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files / "plan.json", "--power", "0", files / "p.png") == 2
    assert "holds clocks and no times; give --power the frontier" in capsys.readouterr().err


@pytest.fixture
def others(files: Path, small_frontier: Frontier) -> Path:
    """Besides: clocks.parquet, of clocks alone and without the fastest point; foreign.parquet, of another GPU."""
    clocks = replace(small_frontier, only="clocks", points=small_frontier.points[1:])
    write_frontier(files / "clocks.parquet", clocks)
    write_frontier(files / "foreign.parquet", replace(small_frontier, device_name="B200"))
    return files


def test_frontiers_side_by_side(run: Run, others: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(others / "frontier.parquet", others / "clocks.parquet") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("1f1b, 2 GPUs: side by side")
    assert [line.split("  ")[0] for line in lines[2:]] == ["max clock", "all together", "clocks only"]
    assert "-10.71 %" in lines[3]  # 3750 J of 4200 J


def test_frontiers_side_by_side_as_json(run: Run, others: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(others / "frontier.parquet", others / "clocks.parquet", "--json") == 0
    printed = capsys.readouterr().out
    found = json.loads(printed)
    assert printed == canonical_json(found)
    assert [one["name"] for one in found["frontiers"]] == ["all together", "clocks only"]
    assert found["frontiers"][1]["energy_j"] == [3950.0, 3750.0]


def test_frontiers_in_one_picture(run: Run, others: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(others / "frontier.parquet", others / "clocks.parquet", "--plot", others / "f.png") == 0
    assert (others / "f.png").read_bytes().startswith(b"\x89PNG")
    assert f"wrote {others / 'f.png'}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("second", "flags", "complaint"),
    [
        ("foreign.parquet", (), "are of different jobs: their device name differs"),
        ("plan.json", (), "plan.json"),
        (
            "clocks.parquet",
            ("--timeline", "0", "t.png"),
            "--timeline draws one frontier's point; give one file",
        ),
        ("clocks.parquet", ("--plot", "f.jpg"), "pictures are written as .png, .svg, .pdf"),
    ],
)
def test_what_cannot_stand_side_by_side_is_refused(
    run: Run,
    others: Path,
    second: str,
    flags: tuple[str, ...],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(others)
    assert run("frontier.parquet", second, *flags) == 2
    printed = capsys.readouterr()
    assert complaint in printed.err and printed.err.count("\n") == 1
    assert printed.out == "" and not list(others.glob("*.jpg"))


def test_a_comparison_never_replaces_an_input(
    run: Run, others: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (others / "clocks.parquet").rename(others / "clocks.png")
    before = (others / "clocks.png").read_bytes()
    assert run(others / "frontier.parquet", others / "clocks.png", "--plot", others / "clocks.png") == 2
    assert "is an input of this command; give another file to --plot" in capsys.readouterr().err
    assert (others / "clocks.png").read_bytes() == before


def test_the_partitions_of_a_plan(
    run: Run, files: Path, small_plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tuple(tuple(replace(op, nanobatches=2) for op in ops) for ops in small_plan.stages)
    write_plan(files / "plan.json", replace(small_plan, stages=cut))
    assert run(files / "plan.json") == 0
    assert "partitions, and how many operations run them so" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [("--plot",), ("--timeline", "0")])
def test_a_picture_never_replaces_the_input(
    run: Run, files: Path, flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "frontier.parquet").rename(files / "frontier.png")
    (files / "link.png").symlink_to("frontier.png")
    before = (files / "frontier.png").read_bytes()
    assert run(files / "frontier.png", *flags, files / "link.png") == 2
    assert f"is an input of this command; give another file to {flags[0]}" in capsys.readouterr().err
    assert (files / "frontier.png").read_bytes() == before


def test_two_pictures_need_two_files(run: Run, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = files / ".." / files.name / "f.png"
    assert run(files / "frontier.parquet", "--plot", files / "f.png", "--timeline", "0", again) == 2
    assert "--plot and --timeline would both write" in capsys.readouterr().err
    assert not (files / "f.png").exists()


def test_foreign_text_sends_no_control_characters(
    run: Run, files: Path, small_plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(files / "plan.json", replace(small_plan, device_name="\x1b[31mGPU\nplan 0 J"))
    assert run(files / "plan.json") == 0
    assert r"\x1b[31mGPU\nplan 0 J" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content", [f"stages = {'1' * 5000}", f"a = {'[' * 5000}", f"stages = 0x{'f' * 5000}"]
)
def test_a_monstrous_pipeline_file_is_refused(
    run: Run, files: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "pipeline.toml").write_text(content)
    assert run(files / "pipeline.toml") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_unknown_file_is_refused(run: Run, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "other").write_text("hello")
    assert run(files / "other") == 2
    assert (
        "expected a profile, a frontier, a telemetry, a plan, a sweep, a list for Zeus or a pipeline.toml"
        in capsys.readouterr().err
    )


def test_the_commands_load_nothing_heavy() -> None:
    code = (
        "import sys, energyopt.cli.diff, energyopt.cli.show\n"
        "heavy = {'numpy', 'pandas', 'pyarrow', 'matplotlib', 'cvxpy', 'highspy', 'rich.table'}\n"
        "print(*sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")
