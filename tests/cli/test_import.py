import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from energyopt.cli.import_ import lowtime, zeus
from energyopt.cli.main import main
from energyopt.schemas.errors import EnergyoptError
from energyopt.schemas.frontier import read_frontier
from energyopt.schemas.plan import read_plan
from energyopt.schemas.profile import read_profile

DATA = Path(__file__).resolve().parents[2] / "../shared/data/stage-profiles"
HEADER = "stage,instruction,frequency,time,energy\n"
GRID = HEADER + "0,forward,1410,50,20000\n0,backward,1410,100,44000\n0,forward,1200,60,18000\n"
LIST = "[[('forward', 1410), ('backward', 1200)]]\n"

Run = Callable[..., int]


@pytest.fixture
def run() -> Run:
    return lambda *arguments: main(["import", *(str(one) for one in arguments)])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "stages.csv"
    path.write_text(GRID + "0,backward,1200,120,40000\n")
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "profile.parquet"


ABOUT = ("--gpu", "A100", "--wait-power-w", "83.64", "--time-unit", "ms", "--energy-unit", "mJ")


def test_lowtime_table(run: Run, source: Path, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lowtime", source, "-o", target, *ABOUT) == 0
    printed = capsys.readouterr()
    title, header, *lines = [line.split() for line in printed.out.splitlines()]
    assert title == ["coverage"]
    assert " ".join(header) == "stage instruction clocks lowest MHz highest MHz GPUs missing"
    assert lines == [
        ["0", "backward", "2", "1200", "1410", "1", "0"],
        ["0", "forward", "2", "1200", "1410", "1", "0"],
    ]
    assert f"wrote {target}: 4 rows" in printed.err
    profile = read_profile(target)
    assert {(row.op, row.sm_clock_mhz): row.energy_j for row in profile.rows}["forward", 1410] == 20.0
    assert (profile.metadata.device_name, profile.metadata.wait_power_w) == ("A100", 83.64)


def test_lowtime_json(run: Run, source: Path, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lowtime", source, "-o", target, *ABOUT, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["gpus_per_stage"], found["warnings"]) == (4, 1, [])
    assert found["profile_sha256"] == read_profile(target).sha256()
    assert [(one["op"], one["clocks"], one["missing"]) for one in found["coverage"]] == [
        ("backward", 2, []),
        ("forward", 2, []),
    ]


def test_incomplete(run: Run, source: Path, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source.write_text(GRID)
    assert run("lowtime", source, "-o", target, *ABOUT) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "backward of stage 0 at 1200 MHz; measure them, or pass --allow-incomplete" in printed.err
    assert not target.exists()
    assert run("lowtime", source, "-o", target, *ABOUT, "--allow-incomplete") == 0
    assert "warning: stages.csv: 1 measurements are missing" in capsys.readouterr().err
    assert len(read_profile(target).rows) == 3


def test_wrong_units_name_the_right_ones(
    run: Run, source: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ("--gpu", "A100", "--wait-power-w", "80", "--energy-unit", "mJ")
    assert run("lowtime", source, "-o", target, *told) == 2
    assert "did you mean" in (complaint := capsys.readouterr().err)
    assert "--time-unit ms (400 W)" in complaint
    assert not target.exists()


def test_the_power_limit_bounds_the_power(
    run: Run, source: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("lowtime", source, "-o", target, *ABOUT, "--power-limit-w", "200") == 2
    assert "400 W over 50 ms, outside 1 to 300 W" in capsys.readouterr().err


@pytest.mark.parametrize("link", [False, True])
def test_the_input_is_never_written_over(source: Path, tmp_path: Path, link: bool) -> None:
    destination = source
    if link:
        destination = tmp_path / "link.csv"
        destination.symlink_to(source)
    before = source.read_bytes()
    with pytest.raises(EnergyoptError, match="is an input of this command"):
        lowtime(source, destination, "A100", 80.0)
    with pytest.raises(EnergyoptError, match="is an input of this command"):
        zeus(source, destination, "A100")
    assert source.read_bytes() == before


def test_zeus(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "freqs.py", tmp_path / "plan.json"
    source.write_text(LIST)
    assert run("zeus", source, "-o", target, "--gpu", "A100") == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"wrote {target}: 1 stages, 1 microbatches, 1f1b" in printed.err
    assert [op.sm_clock_mhz for op in read_plan(target).stages[0]] == [1410, 1200]


def test_zeus_fault(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "freqs.py"
    source.write_text("[[('forward',)]]")
    assert run("zeus", source, "-o", tmp_path / "plan.json", "--gpu", "A100") == 2
    assert capsys.readouterr().err == f"energyopt: {source}: missing clock @ $[0][0]\n"


@pytest.mark.parametrize("missing", ["--gpu", "--wait-power-w", "-o"])
def test_required_options(run: Run, source: Path, target: Path, missing: str) -> None:
    told = {"--gpu": "A100", "--wait-power-w": "80", "-o": str(target)}
    del told[missing]
    assert run("lowtime", source, *(word for pair in told.items() for word in pair)) == 2
    assert not target.exists()


@pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is absent")
def test_a_real_file(run: Run, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ("--gpu", "NVIDIA A40", "--wait-power-w", "70.38", "--power-limit-w", "300", "--json")
    assert run("lowtime", DATA / "bloom-176b.a40-48gb.csv", "-o", target, *told) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 960


def test_registering_loads_nothing_heavy() -> None:
    code = (
        "import sys, typer, energyopt.cli.import_ as module; module.register(typer.Typer());"
        "print(*sorted({'numpy', 'pandas', 'pyarrow', 'cvxpy', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""


def test_chunks_are_planned(tmp_path: Path, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Interleaved 1F1B, two stages of two chunks, two microbatches, every op 1 s.

    Each stage is busy for 2 x 2 x 2 = 8 s and idle for (stages - 1) x (forward + backward) = 2 s. Ops draw 100 J on
    chunk 0 and 200 J on chunk 1, eight of each; two GPUs wait 2 s each at 80 W: 800 + 1600 + 320 = 2720 J.
    """
    source, frontier = tmp_path / "chunks.csv", tmp_path / "frontier.parquet"
    rows = [(s, c, op) for s in (0, 1) for c in (0, 1) for op in ("forward", "backward")]
    cells = "".join(f"{s},{op},1410,1,{100 + 100 * c},{c}\n" for s, c, op in rows)
    source.write_text(HEADER.strip() + ",chunk\n" + cells)
    told = ("--gpu", "A100", "--wait-power-w", "80")
    assert main(["import", "lowtime", str(source), "-o", str(target), *told]) == 0
    _, header, first, *_ = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["stage", "chunk", "instruction"]
    assert first.split()[:3] == ["0", "0", "backward"]
    job = ["plan", str(target), "-o", str(frontier), "--microbatches", "2"]
    assert main([*job, "--chunks", "1"]) == 2
    assert "the profile has 2 chunks per stage and the job 1: give --chunks 2" in capsys.readouterr().err
    assert main([*job, "--schedule", "interleaved-1f1b"]) == 0
    for point in read_frontier(frontier).points:
        assert point.iteration_time_s == pytest.approx(10.0, rel=1e-9)
        assert point.energy_j == pytest.approx(2720.0, rel=1e-9)


def test_the_workload_must_be_that_of_the_job(
    run: Run, source: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ("--workload", "model=gpt3", "--workload", "tp=8", "--power-limit-w", "400")
    assert run("lowtime", source, "-o", target, *ABOUT, *told) == 0
    metadata = read_profile(target).metadata
    assert (metadata.workload, metadata.power_limit_w) == ({"model": "gpt3", "tp": 8}, 400.0)
    job = ["plan", str(target), "-o", str(target.parent / "frontier.parquet"), "--microbatches", "2"]
    assert main([*job, "--tensor-parallel", "1"]) == 2
    assert "measured with tensor_parallel 8 and the job has 1" in capsys.readouterr().err
    assert main(job) == 0


def test_an_unknown_key_of_the_workload(
    run: Run, source: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("lowtime", source, "-o", target, *ABOUT, "--workload", "pp=8") == 2
    assert "--workload has no key 'pp'; known are model, tp, cp," in capsys.readouterr().err
    assert not target.exists()


@pytest.mark.parametrize("gpu", ["", "A\n100", "A100\udcff"])
@pytest.mark.parametrize("words", [("lowtime", "--wait-power-w", "80"), ("zeus",)])
def test_a_name_that_no_gpu_has(
    run: Run, source: Path, target: Path, gpu: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    command, *told = words
    assert run(command, source, "-o", target, "--gpu", gpu, *told) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("energyopt: the name of the GPU")
    assert complaint.count("\n") == 1
    assert not target.exists()
