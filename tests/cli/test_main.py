"""The entry point: exit codes, interrupts, pipes, start-up, and the README's help texts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from energyopt import __version__
from energyopt.cli import main as entry
from energyopt.schemas.errors import EnergyoptError

ROOT = Path(__file__).resolve().parents[2]
HELP = re.compile(r"```console\n\$ (energyopt [^\n]*--help)\n(.*?)```", re.DOTALL)


def _fails(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    def raise_it(**_: object) -> None:
        raise error

    monkeypatch.setattr(entry, "app", raise_it)
    return entry.main(["plan"])


def test_an_expected_error_is_one_line_and_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _fails(monkeypatch, EnergyoptError("no such thing; do that")) == 2
    assert capsys.readouterr().err == "energyopt: no such thing; do that\n"


def test_a_defect_of_ours_is_3(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _fails(monkeypatch, KeyError("oops")) == 3
    printed = capsys.readouterr().err
    assert "a defect of ours: KeyError: 'oops'" in printed
    assert "Traceback" not in printed
    monkeypatch.setenv("ENERGYOPT_TRACEBACK", "1")
    assert _fails(monkeypatch, KeyError("oops")) == 3
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _fails(monkeypatch, KeyboardInterrupt()) == 130
    assert "interrupted" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["--version"]) == 0
    assert capsys.readouterr().out == f"energyopt {__version__}\n"


@pytest.mark.parametrize("words", [["bogus"], ["plan"], ["plan", "--nonsense"]])
def test_usage_errors_are_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(words) == 2
    assert "Usage" in capsys.readouterr().err


def test_a_closed_pipe_is_no_defect(frontier_file: Path) -> None:
    command = f"{sys.executable} -m energyopt.cli show {frontier_file} --json | head -c 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0


def test_help_imports_nothing_heavy() -> None:
    heavy = ("numpy", "pandas", "pyarrow", "cvxpy", "highspy", "matplotlib", "torch")
    code = (
        "import sys; from energyopt.cli.main import main; main(['--help']); "
        f"print(sorted(set({heavy!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_the_help_texts_in_the_readme_are_the_real_ones() -> None:
    found = HELP.findall((ROOT / "README.md").read_text())
    assert len(found) >= 3
    for command, text in found:
        words = [sys.executable, "-m", "energyopt.cli", *command.split()[1:]]
        environment = os.environ | {"COLUMNS": "80", "TERM": "dumb"}
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.strip() == text.strip(), command


def test_the_set_of_options() -> None:
    """Users' scripts depend on these: taking one away, or renaming it, is a change that the changelog names."""
    code = r"""
import re, io, contextlib
from energyopt.cli.main import main
commands = ("doctor", "profile", "merge", "import lowtime", "import zeus")
commands += ("import kareus", "import kareus-plan", "plan", "apply")
commands += ("verify", "calibrate", "diff", "show")
for words in (one.split() for one in commands):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        main([*words, "--help"])
    print(*words, *sorted(set(re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", text.getvalue(), re.M))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "doctor --device --help --json --restore",
        "profile --allow-partial --attention --budget --chunks --clocks --comm-sms --context-parallel "
        "--cool-down-s --data-parallel --device --dtype --early-stop --energy-source --help --json --kernels-on "
        "--layers-per-stage --microbatch-size --output --overlap --power-limit-w --recompute --restart --search "
        "--search-points --seed --sequence-length --sequence-parallel --site-lock-mhz --skip-communication "
        "--soak-s --split-backward --stages --tensor-parallel --warm-up-s --window-s --windows",
        "merge --help --output",
        "import lowtime --allow-incomplete --energy-unit --gpu --help --json --output --power-limit-w "
        "--time-unit --wait-power-w --workload",
        "import zeus --gpu --help --output",
        "import kareus --allow-incomplete --block --gpu --help --json --keep-first --layers-per-stage --output "
        "--power-limit-w --recompute --sms --wait-power-w --window-end --workload",
        "import kareus-plan --context-parallel --gpu --help --output --sms --tensor-parallel",
        "plan --allow-missing-clocks --chunks --context-parallel --data-parallel --effort --fixed-time-s "
        "--help --json --keep-dir --max-slowdown --max-switches --microbatches --min-dwell-s --mixed-clocks "
        "--most-options --only --output --p2p-time-s --peak-lasts-s --peak-power-cap-w --pipeline --points "
        "--schedule --stages --sweep --switch-energy-j --switch-time-s --switch-tradeoff --tensor-parallel "
        "--workers",
        "apply --alternatives --deadline-s --energy-budget-j --format --help --json --max-slowdown --output "
        "--point --power-cap-w",
        "verify --baseline --help --json --profile --schedule --skip --time-only --tolerance",
        "calibrate --help --json --output --profile --schedule --skip --wait-power-w",
        "diff --allow --format --help --json --max-energy-increase --max-time-increase --output",
        "show --gpus-per-node --help --json --plot --power --timeline",
    ]
