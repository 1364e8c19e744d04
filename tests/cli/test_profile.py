"""`energyopt profile` on simulated GPUs, from a model to a plan, and its wrong inputs."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.profiler.search import packages
from energyopt.schemas.frontier import read_frontier
from energyopt.schemas.ops import OpKind
from energyopt.schemas.plan import read_plan
from energyopt.schemas.profile import Level, Profile, read_profile

Energyopt = Callable[..., int]
Done = subprocess.CompletedProcess[str]

A100 = "sim:a100-sxm4-80gb"
LIMIT_S = 60.0  # for a machine that is busy with other things; it takes a few seconds
LOOP = """
import time

def step():
    return [("forward", "f", lambda: time.sleep(0.002)), ("backward", "b", lambda: time.sleep(0.004))]
"""
TALKING = """
from energyopt.profiler.workloads.interface import *

def step():
    print("loading")
    product = Kernel(name="product", flops=1e12, memory_bytes=1e8, matrix=True)
    whole = Partition(name="all", kernels=(KernelUse(kernel=product),))
    op = WorkloadOp(stage=0, chunk=0, kind="forward", partitions=(PartitionUse(partition=whole),))
    return Workload(name="mine", ops=(op,), stages=1)
"""

TALKING_RANKS = """
from energyopt.profiler.workloads.interface import *
from energyopt.profiler.workloads.layers.communication import communication_kernel

def step():
    product = Kernel(name="product", flops=1e12, memory_bytes=1e8, matrix=True)
    talk = Communication(collective=Collective.ALL_REDUCE, message_bytes=1e6, group="data", ranks=2)
    kernels = (KernelUse(kernel=product), KernelUse(kernel=communication_kernel("sum", talk, "float32")))
    use = PartitionUse(partition=Partition(name="all", kernels=kernels))
    op = WorkloadOp(stage=0, chunk=0, kind="forward", partitions=(use,))
    return Workload(name="mine", ops=(op,), stages=1, replicas=2)
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The whole way on a simulated GPU, as a user types it: each command's result, and the folder."""
    folder = tmp_path_factory.mktemp("way")
    commands = {
        "profile": f"profile llama-3.2-3b --device {A100} --stages 2 -o p.parquet",
        "plan": "plan p.parquet -o f.parquet --stages 2 --microbatches 8",
        "apply": "apply f.parquet -o plan.json",
        "diff": "diff plan.json plan.json",
        "show": "show p.parquet",
    }
    found: dict[str, Any] = {"folder": folder}
    start_s = time.monotonic()
    for name, words in commands.items():
        command = [sys.executable, "-m", "energyopt.cli", *words.split()]
        found[name] = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        found.setdefault("profile_s", time.monotonic() - start_s)
    return found


def test_a_plan_from_a_simulated_gpu_saves_energy_at_the_same_time(way: dict[str, Any]) -> None:
    folder = way["folder"]
    assert {
        name: way[name].returncode for name in ("profile", "plan", "apply", "diff", "show")
    } == dict.fromkeys(("profile", "plan", "apply", "diff", "show"), 0)
    assert way["profile_s"] < LIMIT_S
    assert sorted(path.name for path in folder.iterdir()) == ["f.parquet", "p.parquet", "plan.json"]
    clocks = {row.sm_clock_mhz for row in read_profile(folder / "p.parquet").rows}
    assert (len(clocks), max(clocks)) == (18, 1410)
    frontier = read_frontier(folder / "f.parquet")
    point = next(one for one in frontier.points if "max_clock_time" in one.names)
    assert point.iteration_time_s <= frontier.max_clock.iteration_time_s
    assert point.lower_bound_j <= point.energy_j < 0.97 * frontier.max_clock.energy_j


def test_every_output_says_that_the_gpu_was_simulated(way: dict[str, Any]) -> None:
    for name in ("profile", "apply", "diff", "show"):
        assert "A100-SXM4-80GB (simulated)" in way[name].stdout, name
    assert "in simulated time" in way["profile"].stderr
    assert json.loads((way["folder"] / "plan.json").read_text())["device"]["kind"] == "simulated"
    assert read_frontier(way["folder"] / "f.parquet").device_kind == "simulated"


def test_words_go_to_standard_error_in_plain_lines(way: dict[str, Any]) -> None:
    profile: Done = way["profile"]
    assert profile.stdout.splitlines()[1].split()[0] == "op"
    lines = profile.stderr.splitlines()
    assert lines[-1].startswith("wrote p.parquet: ")
    assert all(line.isprintable() for line in lines)


@pytest.fixture
def profiled(
    energyopt: Energyopt, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Profile]:
    """Profile a small model on a simulated A100 at two clocks, unless told otherwise."""

    def run(*words: object, clocks: str = "1410,1200", model: str = "qwen3-1.7b") -> Profile:
        path = tmp_path / "some.parquet"
        usual = (model, "--device", A100, "--clocks", clocks, "--windows", 2, "-o", path)
        code = energyopt("profile", *usual, *words)
        assert code == 0, capfd.readouterr().err
        return read_profile(path)

    return run


def _times_s(profile: Profile, kind: OpKind) -> dict[int, float]:
    """By stage, at 1410 MHz, in one chunk."""
    return {
        row.stage or 0: row.time_s
        for row in profile.rows
        if (row.level, row.op, row.sm_clock_mhz, row.chunk) == (Level.OP, kind, 1410, 0)
    }


def test_the_seed_decides(profiled: Callable[..., Profile]) -> None:
    first, again, other = profiled(), profiled(), profiled("--seed", 1)
    assert first.sha256() == again.sha256()
    assert first.rows == again.rows
    assert other.sha256() != first.sha256()


def test_json(profiled: Callable[..., Profile], capfd: pytest.CaptureFixture[str]) -> None:
    profile = profiled("--json")
    value = json.loads(capfd.readouterr().out)
    assert value["profile_sha256"] == profile.sha256()
    assert value["metadata"]["device_kind"] == "simulated"
    assert {(one["op"], one["sm_clock_mhz"]) for one in value["ops"]} == {
        (op, clock) for op in ("forward", "backward") for clock in (1410, 1200)
    }


@pytest.mark.parametrize(
    ("shape", "job"),
    [
        ("--split-backward", "--schedule zb-h1"),
        ("--chunks 2", "--schedule interleaved-1f1b --chunks 2"),
        ("--layers-per-stage 10,18", ""),
    ],
)
def test_what_schedules_need(
    profiled: Callable[..., Profile], energyopt: Energyopt, tmp_path: Path, shape: str, job: str
) -> None:
    profiled("--stages", 2, *shape.split())
    words = ("--stages", 2, "--microbatches", 4, "--points", 4, *job.split())
    assert energyopt("plan", tmp_path / "some.parquet", "-o", tmp_path / "f.parquet", *words) == 0
    assert energyopt("apply", tmp_path / "f.parquet", "-o", tmp_path / "plan.json") == 0
    ops = {one.op for stage in read_plan(tmp_path / "plan.json").stages for one in stage}
    split = {OpKind.BACKWARD_INPUT, OpKind.BACKWARD_WEIGHT} if "split" in shape else {OpKind.BACKWARD}
    assert ops == {OpKind.FORWARD} | split


def test_layers_of_each_stage(profiled: Callable[..., Profile]) -> None:
    """gpt3-xl's 24 layers are alike, so middle stages take as long as they have layers."""
    times_s = _times_s(
        profiled("--stages", 4, "--layers-per-stage", "6,4,8,6", model="gpt3-xl"), OpKind.FORWARD
    )
    assert times_s[2] == pytest.approx(2 * times_s[1], rel=1e-6)


def test_recomputing_costs_the_backward_a_forward(profiled: Callable[..., Profile]) -> None:
    """On a stage between the others, which has neither embedding nor head, it is the whole forward once more."""
    plain, again = (profiled("--stages", 3, "--recompute", how, model="gpt3-xl") for how in ("none", "full"))
    forward_s = _times_s(plain, OpKind.FORWARD)[1]
    dearer_s = _times_s(again, OpKind.BACKWARD)[1] - _times_s(plain, OpKind.BACKWARD)[1]
    assert dearer_s == pytest.approx(forward_s, rel=0.05)


def test_gpus_that_share_a_stage(
    profiled: Callable[..., Profile],
    energyopt: Energyopt,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    profile = profiled("--tensor-parallel", 8, "--comm-sms", "4,8")
    assert "per op on 1 of the 8 GPUs of a stage" in capfd.readouterr().out
    assert profile.metadata.gpus_per_stage == 8
    assert {row.comm_sms for row in profile.rows if "all_gather" in str(row.kernel)} == {None, 4, 8}
    path = tmp_path / "some.parquet"
    words = ("--stages", 1, "--microbatches", 2, "--tensor-parallel", 8, "--points", 4)
    assert energyopt("plan", path, "-o", tmp_path / "f.parquet", *words) == 0
    title = capfd.readouterr().out.partition("\n")[0]
    assert "(simulated)" in title
    assert title.endswith("8 GPUs: points")


def _ways(profile: Profile) -> set[tuple[Any, ...]]:
    """How the partitions were run: whole or cut, and how the communication was."""
    return {
        (row.nanobatches, row.execution, row.comm_launch is None, row.comm_sms)
        for row in profile.rows
        if row.level is Level.PARTITION
    }


def test_overlap_adds_rows_and_changes_none(profiled: Callable[..., Profile]) -> None:
    """Times of kernels are a board's, which one that does more is otherwise warmed; that they are the same rows."""
    job = ("--tensor-parallel", 2, "--microbatch-size", 2)
    plain, more = profiled(*job), profiled(*job, "--overlap", "--comm-sms", "8,16")

    def places(profile: Profile, *, cut: bool) -> list[tuple[Any, ...]]:
        return [
            (row.level, row.stage, row.op, row.partition, row.kernel, row.count, row.sm_clock_mhz)
            for row in profile.rows
            if (row.nanobatches == 2) is cut
        ]

    assert places(plain, cut=False) == places(more, cut=False)
    assert places(plain, cut=True) == []
    assert {row.nanobatches for row in plain.rows} == {None}
    assert _ways(plain) == {(None, "sequential", True, None)}
    assert _ways(more) == {
        *((nanobatches, "sequential", True, None) for nanobatches in (None, 1, 2)),
        *((2, "overlapped", False, sms) for sms in (None, 8, 16)),
    }
    assert {
        row.partition for row in more.rows if row.level is Level.PARTITION and row.nanobatches is None
    } == {
        "embedding",
        "head_dgrad",
        "head_wgrad",
        "head",
    }
    assert all(row.invalid is None for row in more.rows)


def test_sharded_weights_need_no_cut_and_take_the_usual_sm_counts(profiled: Callable[..., Profile]) -> None:
    profile = profiled("--data-parallel", 4, "--overlap", clocks="1410")
    counts = {None, *range(3, 31, 3)}
    assert _ways(profile) == {
        *((nanobatches, "sequential", True, None) for nanobatches in (None, 1)),
        *((1, "overlapped", False, sms) for sms in counts),
    }
    assert profile.metadata.workload["dp"] == 4
    assert profile.metadata.gpus_per_stage == 1


def test_a_search_measures_some_configurations_and_its_profile_can_be_planned(
    profiled: Callable[..., Profile],
    energyopt: Energyopt,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    job = ("--stages", 2, "--tensor-parallel", 2, "--microbatch-size", 2)
    points = ("--comm-sms", "8,16", "--search-points", 64)
    profile = profiled(*job, "--search", *points, clocks="1410,1200")
    assert "search: 64 of " in capfd.readouterr().err
    assert profile.metadata.measurement["search_measured_points"] == 64
    assert _ways(profile) >= {(1, "sequential", True, None), (2, "sequential", True, None)}
    cut = {
        (row.op, row.partition, row.execution, row.comm_sms, row.comm_launch, row.sm_clock_mhz)
        for row in profile.rows
        if row.nanobatches == 2
    }
    assert len(cut) == 64
    assert any(execution == "overlapped" for _, _, execution, *_ in cut)
    words = ("--stages", 2, "--microbatches", 4, "--points", 4)
    assert energyopt("plan", tmp_path / "some.parquet", "-o", tmp_path / "f.parquet", *words) == 0


def test_a_search_needs_its_library(
    own: Path, energyopt: Energyopt, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line that says what to install, before anything is measured."""
    monkeypatch.setattr(packages, "find_spec", lambda _: None)
    job = ("--device", A100, "--data-parallel", 2, "--search", "-o", "p.parquet")
    assert energyopt("profile", own / "tiny.toml", *job) == 2
    assert "--search needs BoTorch (pip install 'energyopt[search]')" in capfd.readouterr().err


def test_points_without_a_search_are_ignored_and_said_to_be(
    profiled: Callable[..., Profile], capfd: pytest.CaptureFixture[str]
) -> None:
    profiled("--search-points", 10, clocks="1410")
    assert "--search-points is ignored: without --search every configuration" in capfd.readouterr().err


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with workloads of a user's own."""
    (tmp_path / "own_loop.py").write_text(LOOP)
    (tmp_path / "talking_loop.py").write_text(TALKING_RANKS)
    (tmp_path / "tiny.toml").write_text(
        "hidden_size = 64\nnum_hidden_layers = 2\nnum_attention_heads = 2\nintermediate_size = 128\n"
        "vocab_size = 128\n[job]\nstages = 2\nsequence_length = 64\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("own_loop", "talking_loop"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_a_file_s_job_and_flags_over_it(own: Path, profiled: Callable[..., Profile]) -> None:
    profile = profiled("--microbatch-size", 4, model=str(own / "tiny.toml"))
    assert {row.stage for row in profile.rows if row.level is Level.OP} == {0, 1}
    workload = profile.metadata.workload
    assert (workload["model"], workload["sequence_length"], workload["microbatch_size"]) == ("tiny", 64, 4)


WRONG = {
    "qwen3-1.7": "did you mean qwen3-1.7b",
    "nowhere.toml": "cannot read nowhere.toml",
    "no_module:step": "cannot import 'no_module'",
    "own_loop:nothing": "no function 'nothing'; the module has step",
    "own_loop:step": "nothing states what f computes",
    "tiny.toml -o tiny.toml": "is an input of this command",
    "tiny.toml -o nowhere/p.parquet": "there is no folder",
    "tiny.toml -o /dev/null": "not a regular file",
    "tiny.toml -o .": "not a regular file",
    "tiny.toml -o /proc/p.parquet": "cannot write /proc/p.parquet",  # root may write where it likes, but not here
    "tiny.toml --device sim:b300": "there are a100-sxm4-40gb, a100-sxm4-80gb, a40",
    "tiny.toml --device cuda:0": "none of auto",
    "tiny.toml --clocks garbage": "LOW:HIGH:STEP, a list such as",
    "tiny.toml --clocks=": "LOW:HIGH:STEP, a list such as",
    "tiny.toml --clocks 1410,": "LOW:HIGH:STEP, a list such as",
    "tiny.toml --clocks 5000": "5000 MHz is no clock of this board, which supports 210 to 1410 MHz",
    "tiny.toml --clocks 900:800:15": "900:800:15 is empty",
    "tiny.toml --budget garbage": "no time such as 90s",
    "tiny.toml --budget 0s": "no time such as 90s",
    "tiny.toml --budget 2s": "too short",
    "tiny.toml --window-s 0.01": "--window-s 0.5",
    "tiny.toml --window-s=-1": "--window-s must be a positive number",
    "tiny.toml --window-s nan": "--window-s must be a positive number",
    "tiny.toml --warm-up-s inf": "--warm-up-s must be a positive number",
    "tiny.toml --cool-down-s inf": "--cool-down-s must be 0 or a positive number",
    "tiny.toml --cool-down-s nan": "--cool-down-s",
    "tiny.toml --soak-s inf": "--soak-s must be 0 or a positive number",
    "tiny.toml --soak-s=-1": "--soak-s",
    "tiny.toml --power-limit-w nan": "--power-limit-w must be a positive number",
    "tiny.toml --power-limit-w 0": "--power-limit-w must be a positive number",
    "tiny.toml --windows 1": "--windows",
    "tiny.toml --seed=-1": "--seed",
    "tiny.toml --layers-per-stage a,b": "--layers-per-stage 'a,b' is no list",
    "tiny.toml --layers-per-stage 1,2": "adds up to 3; the model has 2 layers",
    "tiny.toml --layers-per-stage 2": "has 1 numbers; stages x chunks are 2",
    "tiny.toml --tensor-parallel 3": "num_attention_heads 2 is not divisible by tensor_parallel 3",
    "tiny.toml --stages 9": "2 layers cannot fill 9 stages",
    "tiny.toml --data-parallel 2 --tensor-parallel 2": "leave it at 1 to measure a replica",
    "tiny.toml --data-parallel 0": "--data-parallel",
    "tiny.toml --overlap": "nothing in tiny communicates, so --overlap has nothing to overlap",
    "tiny.toml --overlap --tensor-parallel 2": "this one has 1 sequence: give an even --microbatch-size",
    "tiny.toml --overlap --data-parallel 2 --skip-communication": "give one of the two",
    "tiny.toml --search": "nothing in tiny communicates",
    "tiny.toml --search --data-parallel 2 --search-points 9": "--search-points 9 is too few",
    "tiny.toml --tensor-parallel 2 --comm-sms 8,109": "run on 109 SMs: NVIDIA A100-SXM4-80GB (simulated) has 108",
    "tiny.toml --overlap --data-parallel 2 --comm-sms 100:120:4": "cannot run on 120 SMs",
    "tiny.toml --tensor-parallel 2 --comm-sms 9:3:3": "--comm-sms 9:3:3 is empty",
    "tiny.toml --tensor-parallel 2 --comm-sms 1:999999999999999999:1": "takes at most 1024 counts, each at most",
    "tiny.toml --tensor-parallel 2 --comm-sms 8,1025": "but has 2 up to 1025",
    f"tiny.toml --tensor-parallel 2 --comm-sms {'8,' * 1024}8": "but has 1025 up to 8",
    f"tiny.toml --tensor-parallel 2 --comm-sms {'9' * 5000}": "is no list",
    "tiny.toml --tensor-parallel 2 --comm-sms 3:9": "--comm-sms '3:9' is no list",
    "talking_loop:step --overlap": "no partition of mine says where its communication may be launched",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_inputs(own: Path, energyopt: Energyopt, capfd: pytest.CaptureFixture[str], words: str) -> None:
    """One clear line, exit code 2, and the folder as it was."""
    before = {path: path.read_bytes() for path in own.iterdir()}
    usual = () if "-o" in words.split() else ("-o", "p.parquet")
    device = () if "--device" in words else ("--device", A100)
    assert energyopt("profile", *words.split(), *device, *usual) == 2
    out, err = capfd.readouterr()
    complaint = err.splitlines()[-1]
    assert WRONG[words] in complaint
    assert "Traceback" not in err
    assert out == ""
    assert {path: path.read_bytes() for path in own.iterdir() if path.is_file()} == before


def test_what_a_user_s_code_prints_is_no_data(
    own: Path, energyopt: Energyopt, capfd: pytest.CaptureFixture[str]
) -> None:
    (own / "own_loop.py").write_text(TALKING)
    words = ("own_loop:step", "--device", A100, "--clocks", "1410,1200", "--windows", 2, "-o", "p.parquet")
    assert energyopt("profile", *words, "--json") == 0
    out, err = capfd.readouterr()
    assert {one["op"] for one in json.loads(out)["ops"]} == {"forward"}
    assert err.startswith("loading\n")


def test_rows_that_must_not_be_used_are_told(
    own: Path, energyopt: Energyopt, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    del own
    real = "energyopt.profiler.measurement.window._clock_problem"
    monkeypatch.setattr(real, lambda conditions, *_: "too hot" if conditions.sm_clock_mhz == 1200 else None)
    words = ("tiny.toml", "--device", A100, "--clocks", "1410,1200", "--windows", 2, "-o", "p.parquet")
    assert energyopt("profile", *words) == 0
    rows = read_profile(Path("p.parquet")).rows
    marked = sum(row.invalid is not None for row in rows)
    assert marked == len(rows) // 2
    assert (
        f"warning: {marked} of {len(rows)} rows must not be used, the most of them" in capfd.readouterr().err
    )


def test_nobody_reads_the_rest(own: Path) -> None:
    words = f"profile tiny.toml --device {A100} --clocks 1410,1200 --windows 2 -o p.parquet"
    command = f"set -o pipefail; {sys.executable} -m energyopt.cli {words} --json | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=own, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "{\n"), done.stderr
    assert "Traceback" not in done.stderr


def test_the_order_of_partitions_is_kept(profiled: Callable[..., Profile]) -> None:
    """A layer's attention comes before its MLP, in backward after it; rows are sorted and cannot tell."""
    order = profiled("--tensor-parallel", 2, "--microbatch-size", 2, "--stages", 2).metadata.partition_order
    assert {(key.stage, key.kind): names for key, names in order.items()} == {
        (0, OpKind.FORWARD): ("embedding", *FORWARD),
        (1, OpKind.FORWARD): (*FORWARD, "head"),
        (0, OpKind.BACKWARD): (*BACKWARD, "embedding"),
        (1, OpKind.BACKWARD): ("head_dgrad", "head_wgrad", *BACKWARD),
    }


FORWARD = ("attention_qkv", "attention_out", "mlp_up", "mlp_down")
BACKWARD = (
    "mlp_down",
    "mlp_up_dgrad",
    "mlp_up_wgrad",
    "attention_out",
    "attention_qkv_dgrad",
    "attention_qkv_wgrad",
)
