"""`energyopt import kareus` and `kareus-plan`, and the way out again with `apply --format kareus`."""

import ast
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from energyopt.schemas.frontier import Frontier, write_frontier
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import Execution, PartitionConfig
from energyopt.schemas.plan import read_plan
from energyopt.schemas.profile import read_profile

Energyopt = Callable[..., int]

PARTITIONS = ("fwd_attn", "fwd_mlp", "bwd_attn", "bwd_mlp")
FILES = ("preprocess", "postprocess", "loss", "preprocess_backward", "postprocess_backward")
ABOUT = ("--gpu", "A100", "--wait-power-w", "85", "--layers-per-stage", "14,14")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job's folder, measured at 1410 MHz: each partition 5 ms and 1.25 J, each file 1 ms and 0.2 J."""
    folder = tmp_path / "llama3.2_3b" / "cp1-tp8-bs8-seq4096"
    measured = {"freq": 1410, "overlap_start": 2, "overlap_end": 8, "sm": 24, "block": 1024}
    for name in PARTITIONS:
        (folder / name).mkdir(parents=True)
        text = json.dumps(measured | {"time_s": 5e-3, "energy_j": 1.25})
        (folder / name / "eval_results.jsonl").write_text(text + "\n")
    (folder / "nonpartition" / "1410").mkdir(parents=True)
    for name in FILES:
        header = "time (s),total_energy (J),per_rank_energy (J)"
        (folder / "nonpartition" / "1410" / f"{name}_energy.csv").write_text(f"{header}\n0.001,1.6,0.2\n")
    return folder


def test_a_job(energyopt: Energyopt, job: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "profile.parquet"
    assert energyopt("import", "kareus", job, "-o", target, *ABOUT) == 0
    printed = capfd.readouterr()
    title, header, *rows = [line.split() for line in printed.out.splitlines()]
    assert title == ["coverage"]
    assert " ".join(header) == "partition kind clocks lowest MHz highest MHz configurations missing"
    assert rows[0] == ["fwd_attn", "forward", "1", "1410", "1410", "1", "0"]
    assert rows[-1][0] == "nonpartition/postprocess_backward"
    assert f"wrote {target}: 17 rows, 8 GPU(s) per stage, with recomputation" in printed.err
    assert len(read_profile(target).rows) == 17  # two stages of 2 + 4 partitions, and five files


def test_json_and_what_is_incomplete(
    energyopt: Energyopt, job: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = job / "fwd_attn" / "eval_results.jsonl"
    log.write_text(log.read_text() + log.read_text().replace("1410", "1200"))
    words = ("import", "kareus", job, "-o", tmp_path / "p.parquet", *ABOUT, "--json")
    assert energyopt(*words) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "clocks are missing in 8 of 9 partitions and files: fwd_mlp at 1200 MHz" in printed.err
    assert energyopt(*words, "--allow-incomplete") == 0
    printed = capfd.readouterr()
    found = json.loads(printed.out)
    assert found["coverage"][1]["missing"] == ["fwd_mlp at 1200 MHz"]
    assert (found["gpus_per_stage"], len(found["warnings"])) == (8, 1)
    assert "warning: clocks are missing in 8 of 9" in printed.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--layers-per-stage", "14;14"), "--layers-per-stage '14;14' is no list of whole numbers"),
        (("--workload", "cp=2"), "there is no fwd_qkv_ar/eval_results.jsonl"),
        (("--window-end", "fwd_attn=6"), "--window-end fwd_attn=6 fits nothing"),
        (("--block", "512"), "--block 512 fits nothing"),
        (("--sms", "23"), "fwd_attn/eval_results.jsonl: line 1: 24 SMs, but A100 has 23"),
        (("--workload", "tp=4"), "would be 8 ranks, but the job has 4 GPU(s) per stage"),
    ],
)
def test_refusals(
    energyopt: Energyopt,
    job: Path,
    tmp_path: Path,
    words: tuple[str, ...],
    expected: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "profile.parquet"
    assert energyopt("import", "kareus", job, "-o", target, *ABOUT, *words) == 2
    printed = capfd.readouterr()
    assert expected in printed.err
    assert printed.err.count("\n") == 1
    assert not target.exists()


def test_a_log_is_never_written_over(energyopt: Energyopt, job: Path) -> None:
    log = job / "fwd_attn" / "eval_results.jsonl"
    before = log.read_bytes()
    assert energyopt("import", "kareus", job, "-o", log, *ABOUT) == 2
    assert log.read_bytes() == before


@pytest.fixture
def frontier(small_frontier: Frontier, tmp_path: Path) -> Path:
    """The small frontier with partitions of a Kareus layout; SM counts tell the options apart."""

    def configs(sms: int, *names: str) -> tuple[tuple[str, PartitionConfig], ...]:
        config = PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=sms, comm_launch="2")
        return tuple((name, config) for name in sorted(names))

    names = {
        OpKind.FORWARD: PARTITIONS[:2],
        OpKind.BACKWARD: ("recompute_fwd_attn", "recompute_fwd_mlp", *PARTITIONS[2:]),
    }
    options = {
        key: tuple(
            replace(one, nanobatches=2, partitions=configs(index + 1, *names[key.kind]))
            for index, one in enumerate(own)
        )
        for key, own in small_frontier.options.items()
    }
    path = tmp_path / "frontier.parquet"
    write_frontier(path, replace(small_frontier, options=options))
    return path


def test_there_and_back(
    energyopt: Energyopt, frontier: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ours, back, folder = tmp_path / "ours.json", tmp_path / "back.json", tmp_path / "plans"
    folder.mkdir()
    assert energyopt("apply", frontier, "-o", ours) == 0
    assert energyopt("apply", frontier, "-o", folder, "--format", "kareus", "--alternatives", 1) == 0
    said = capfd.readouterr().err
    freqs, scheds = folder / "freqs_pipeline_00000.py", folder / "scheds_pipeline_00000.py"
    assert "--alternatives is ignored: a list for Kareus holds one plan" in said
    assert f"wrote {freqs} and {scheds}" in said
    assert energyopt("import", "kareus-plan", freqs, "-o", back, "--gpu", "GPU") == 0
    assert (
        "2 stages, 2 microbatches, 1f1b, partitions of a tensor parallel layer with" in capfd.readouterr().err
    )
    assert read_plan(back).stages == read_plan(ours).stages
    assert energyopt("show", back) == 0
    assert energyopt("diff", back, back) == 0


def test_what_two_names_share(energyopt: Energyopt, frontier: Path, tmp_path: Path) -> None:
    assert (
        energyopt("apply", frontier, "-o", tmp_path / "best", "--format", "kareus", "--point", "min_energy")
        == 0
    )
    first = ast.literal_eval((tmp_path / "scheds_best.py").read_text())[0][0]
    assert first == ("forward", "2-8-2-1024", "2-6-2-1024")
    words = (tmp_path / "freqs_best.py", tmp_path / "scheds_best.py")
    assert energyopt("import", "kareus-plan", *words, "-o", tmp_path / "b.json", "--gpu", "A100") == 0


def test_a_plan_without_partitions_cannot_be_written(
    energyopt: Energyopt, frontier_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert energyopt("apply", frontier_file, "-o", tmp_path / "best", "--format", "kareus") == 2
    printed = capfd.readouterr()
    assert "Kareus cuts every microbatch into 2 nanobatches" in printed.err
    assert printed.out == ""
    assert not list(tmp_path.glob("*_best.py"))


def test_settings_that_are_not_there(
    energyopt: Energyopt, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    freqs = tmp_path / "freqs_1.py"
    freqs.write_text("[[('forward', 1410), ('backward', 1200)]]\n")
    assert energyopt("import", "kareus-plan", freqs, "-o", tmp_path / "plan.json", "--gpu", "A100") == 2
    assert f"there is no {tmp_path / 'scheds_1.py'} beside {freqs}" in capfd.readouterr().err
    scheds = tmp_path / "scheds_1.py"
    scheds.write_text("[[('forward', '1-8-3-1024')]]\n")
    assert energyopt("import", "kareus-plan", freqs, "-o", scheds, "--gpu", "A100") == 2
    assert "is an input of this command" in capfd.readouterr().err


def test_a_plan_for_more_sms_than_the_gpu_has(
    energyopt: Energyopt, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "freqs_1.py").write_text("[[('forward', 1410), ('backward', 1200)]]\n")
    own = "'1-8-109-1024', '0-6-3-1024'"
    (tmp_path / "scheds_1.py").write_text(f"[[('forward', {own}), ('backward', {own})]]\n")
    words = ("import", "kareus-plan", tmp_path / "freqs_1.py", "-o", tmp_path / "plan.json", "--gpu", "A100")
    assert energyopt(*words) == 2
    assert "scheds_1.py: 109 SMs, but A100 has 108" in capfd.readouterr().err
    assert energyopt(*words, "--sms", 109) == 0
