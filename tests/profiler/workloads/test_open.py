import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.profiler.workloads.open import load_workload
from energyopt.schemas.errors import WorkloadError

USER = """
from energyopt.profiler.workloads.simple import simple_workload

def steps():
    return [("forward", "mine", lambda: None), ("backward", "grad", lambda: None), ("forward", "more", print)]

def whole():
    return simple_workload("called-so", steps())

def twice():
    return [("forward", "mine", print), ("backward", "mine", print)]

def bad_kind():
    return [("forwards", "mine", print)]

def not_tuples():
    return [print]

def number():
    return 3

def nothing():
    return []

def broken():
    return 1 / 0
"""


GPT2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
}


@pytest.fixture
def user_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the working folder, which is not yet on the path."""
    (tmp_path / "my_training_code.py").write_text(USER)
    (tmp_path / "my_broken_code.py").write_text("import no_such_module_anywhere\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path[:])
    monkeypatch.delitem(sys.modules, "my_training_code", raising=False)


def test_a_preset_takes_the_settings_that_are_set() -> None:
    workload = load_workload("gpt3-xl", {"stages": 4, "dtype": None})
    assert (workload.name, workload.stages, workload.settings["dtype"]) == ("gpt3-xl", 4, "bfloat16")


def test_flags_override_a_file(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(
        "hidden_size = 64\nnum_hidden_layers = 6\nnum_attention_heads = 4\nintermediate_size = 96\n"
        "vocab_size = 1000\n[job]\nstages = 2\nmicrobatch_size = 4\n"
    )
    workload = load_workload(str(path), {"stages": 3, "microbatch_size": None})
    assert (workload.stages, workload.settings["microbatch_size"]) == (3, 4)


def test_a_folder_stands_for_its_config_json(
    tmp_path: Path, write_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpt2").mkdir()
    write_model(GPT2, "gpt2/config.json")
    monkeypatch.chdir(tmp_path)
    for spec in ("gpt2/", "gpt2", str(tmp_path / "gpt2")):
        assert load_workload(spec, {"sequence_length": 512}).name == "gpt2"
    monkeypatch.chdir(tmp_path / "gpt2")
    assert load_workload(".", {"sequence_length": 512}).name == "gpt2"
    with pytest.raises(WorkloadError, match=r"the folder \.\. holds no config\.json; give the file"):
        load_workload("..", {})


@pytest.mark.parametrize(
    ("changes", "settings", "problem"),
    [
        (
            {},
            {},
            "has 1024 learned positions and the default .* is 2048: give --sequence-length 1024 or less",
        ),
        ({}, {"sequence_length": 4096}, "sequence_length 4096 exceeds the 1024 learned positions"),
        ({"job": {"sequence_length": 1025}}, {}, "sequence_length 1025 exceeds the 1024 learned positions"),
        ({"n_positions": 2048}, {}, None),
        ({"job": {"sequence_length": 1024}}, {}, None),
        ({"position": "rotary"}, {}, None),
    ],
)
def test_the_default_length_is_not_blamed_on_the_user(
    write_model: Callable[..., Path], changes: dict[str, Any], settings: dict[str, Any], problem: str | None
) -> None:
    path = str(write_model(GPT2 | changes))
    if problem is None:
        assert load_workload(path, settings).ops
    else:
        with pytest.raises(WorkloadError, match=problem):
            load_workload(path, settings)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("x" * 5000, "unknown workload"),  # longer than any path may be
        ("gpt3-lx", "unknown workload 'gpt3-lx': did you mean gpt3-xl\\? presets are llama-3.2-3b, "),
        ("zzz", "unknown workload 'zzz': presets are llama-3.2-3b, .*otherwise give a .toml or .json file"),
    ],
)
def test_an_unknown_name_lists_what_is_known(spec: str, problem: str) -> None:
    with pytest.raises(WorkloadError, match=problem):
        load_workload(spec, {})


@pytest.mark.usefixtures("user_code")
def test_a_function_gives_callables_or_a_whole_workload() -> None:
    workload = load_workload("my_training_code:steps", {"stages": None})
    found = {op.kind: [one.kernel.name for one in op.partitions[0].partition.kernels] for op in workload.ops}
    assert found == {"forward": ["mine", "more"], "backward": ["grad"]}
    assert load_workload("my_training_code:whole", {}).name == "called-so"


@pytest.mark.usefixtures("user_code")
@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("my_training_code:twice", "the name 'mine' stands twice"),
        ("my_training_code:bad_kind", "'forwards' is no kind of operation; known are forward, backward"),
        ("my_training_code:not_tuples", "expected a tuple \\(kind, name, callable\\), found <built-in"),
        ("my_training_code:number", "returned int; return a Workload or tuples"),
        ("my_training_code:nothing", "no callable to measure"),
        ("my_training_code:broken", "my_training_code:broken: ZeroDivisionError: division by zero"),
        ("my_training_code:other", "no function 'other'; the module has bad_kind, broken, "),
        (
            "my_broken_code:any",
            "cannot import 'my_broken_code': ModuleNotFoundError: No module named 'no_such",
        ),
        ("no_such_code:any", "cannot import 'no_such_code': ModuleNotFoundError"),
    ],
)
def test_a_function_that_is_wrong_is_told_in_one_line(spec: str, problem: str) -> None:
    with pytest.raises(WorkloadError, match=problem) as caught:
        load_workload(spec, {})
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("user_code")
def test_settings_that_a_function_would_ignore_are_refused() -> None:
    with pytest.raises(WorkloadError, match="stages cannot be set for my_training_code:steps"):
        load_workload("my_training_code:steps", {"stages": 2})
