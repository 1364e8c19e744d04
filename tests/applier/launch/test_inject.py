"""The `sitecustomize` by which `energyopt run` gets into every Python process of a job."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from energyopt.applier.launch import inject

Run = Callable[..., "subprocess.CompletedProcess[str]"]

FOLDER = str(Path(next(iter(inject.__path__))).resolve())
LOADED = "import sys; print('energyopt.applier.launch.start' in sys.modules)"


def test_it_starts_the_watch(python: Run) -> None:
    done = python("-c", LOADED, PYTHONPATH=FOLDER, ENERGYOPT_PLAN="plan.json")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


@pytest.mark.parametrize("env", [{}, {"ENERGYOPT_PLAN": ""}])
def test_without_a_plan_nothing_is_loaded(python: Run, env: dict[str, str]) -> None:
    done = python("-c", LOADED, PYTHONPATH=FOLDER, **env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


@pytest.mark.parametrize("plan", ["", "plan.json"])
def test_a_sites_own_still_runs(python: Run, tmp_path: Path, plan: str) -> None:
    """Once, with its own name and file, as if ours were not there."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("print('site', __name__, __file__)\n")
    done = python("-c", "print('job')", PYTHONPATH=f"{FOLDER}:{site}", ENERGYOPT_PLAN=plan)
    assert done.stdout.splitlines() == [f"site sitecustomize {site / 'sitecustomize.py'}", "job"]
    assert done.stderr == ""


def test_where_energyopt_is_not_installed_python_starts_all_the_same(python: Run) -> None:
    """Another interpreter of the job, or -I and the like: said, and no more."""
    done = python(
        "-S",
        "-c",
        f"import sys; sys.path.insert(0, {FOLDER!r}); import sitecustomize; print('job')",
        ENERGYOPT_PLAN="plan.json",
    )
    assert (done.returncode, done.stdout) == (0, "job\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("energyopt: not loaded into ")


def test_isolated_python_is_left_alone(python: Run) -> None:
    done = python("-I", "-c", LOADED, PYTHONPATH=FOLDER, ENERGYOPT_PLAN="plan.json")
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


RANK = "import os; print(os.environ.get('ENERGYOPT_LOST_SAID'))"


@pytest.mark.parametrize("variable", ["LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"])
def test_settings_that_a_launcher_did_not_pass_on(python: Run, variable: str) -> None:
    """The folder is on the path, and nothing says what to do: once on each node, and not by what a rank starts."""
    first = python("-c", RANK, PYTHONPATH=FOLDER, RANK="8", **{variable: "0"})
    assert first.stdout == "1\n"
    (line,) = first.stderr.splitlines()
    assert line.startswith("energyopt: rank 8: the settings of energyopt run did not come through")
    assert [word for word in (".deepspeed_env", "mpirun: -x", "srun: --export=ALL") if word not in line] == []
    child = python("-c", RANK, PYTHONPATH=FOLDER, ENERGYOPT_LOST_SAID="1", **{variable: "0"})
    other = python("-c", RANK, PYTHONPATH=FOLDER, **{variable: "1"})
    assert (child.stderr, other.stderr) == ("", "")


@pytest.mark.parametrize(
    "env", [{"ENERGYOPT_PLAN": ""}, {"ENERGYOPT_MODE": "off"}, {"ENERGYOPT_PLAN": "p.json"}]
)
def test_what_was_decided_is_not_lost(python: Run, env: dict[str, str]) -> None:
    assert python("-c", RANK, PYTHONPATH=FOLDER, LOCAL_RANK="0", **env).stderr == ""
