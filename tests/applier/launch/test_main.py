"""`python -m energyopt.applier` runs a script as Python itself would."""

import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SCRIPT = '''"""A training script."""
import os, pickle, sys

import beside


class Model:
    pass


def train():
    raise ValueError("bad batch")


main = sys.modules["__main__"]
print(sys.argv, sys.path[0], __name__, __file__, __spec__, __doc__, __package__)
print(main.__dict__ is globals(), pickle.loads(pickle.dumps(Model())).__class__ is Model, beside.value)
print(sorted(name for name in globals() if not name.startswith("_")), type(__loader__).__name__)
{then}
'''

ENDINGS = {
    "end": "",
    "exit": "sys.exit(3)",
    "words": "sys.exit('no data')",
    "error": "train()",
    "chained": "\n".join(
        ("try:", "    train()", "except ValueError as error:", "    raise KeyError('lost') from error")
    ),
    "syntax": "import broken",
    "os._exit": "sys.stdout.flush(); os._exit(7)",
    "hook": "sys.excepthook = lambda *found: print('hooked', found[0].__name__); train()",
    "thread": "import threading; threading.Timer(0.1, lambda: print(main is sys.modules['__main__'])).start()",
    "at exit": "import atexit; atexit.register(lambda: print('bye', main is sys.modules['__main__'], Model))",
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "beside.py").write_text("value = 5\n")
    (tmp_path / "jobs" / "broken.py").write_text("x = = 3\n")
    return tmp_path / "jobs" / "train.py"


def same(python: Run, *arguments: str) -> "subprocess.CompletedProcess[str]":
    plain, ours = python(*arguments), python("-m", "energyopt.applier", *arguments)
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    return ours


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_script(python: Run, script: Path, ending: str) -> None:
    """Same arguments, path, names, output, traceback and exit code."""
    script.write_text(SCRIPT.format(then=ENDINGS[ending]))
    done = same(python, "jobs/train.py", "--lr", "1e-3", "-m", "x")
    assert "['jobs/train.py', '--lr', '1e-3', '-m', 'x']" in done.stdout


def test_a_script_by_its_full_path(python: Run, script: Path) -> None:
    script.write_text(SCRIPT.format(then=""))
    assert same(python, str(script)).returncode == 0


def test_a_script_behind_a_link(python: Run, script: Path, tmp_path: Path) -> None:
    """Its neighbours are those of the file itself."""
    script.write_text(SCRIPT.format(then=""))
    (tmp_path / "link.py").symlink_to(script)
    assert same(python, "link.py").returncode == 0


def test_a_script_with_an_error_of_its_own(python: Run, script: Path) -> None:
    script.write_text("x = = 3\n")
    assert "SyntaxError" in same(python, "jobs/train.py").stderr


def test_a_script_in_another_encoding(python: Run, script: Path) -> None:
    script.write_bytes("# -*- coding: latin-1 -*-\nprint(ascii('é'))\n".encode("latin-1"))
    assert same(python, "jobs/train.py").stdout == "'\\xe9'\n"


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_or_an_archive(python: Run, tmp_path: Path, packed: bool) -> None:
    content = "import sys, other; print(sys.argv, __name__, other.value)"
    if packed:
        with zipfile.ZipFile(tmp_path / "job.pyz", "w") as archive:
            archive.writestr("__main__.py", content)
            archive.writestr("other.py", "value = 8")
    else:
        (tmp_path / "job.pyz").mkdir()
        (tmp_path / "job.pyz" / "__main__.py").write_text(content)
        (tmp_path / "job.pyz" / "other.py").write_text("value = 8")
    assert same(python, "job.pyz", "--lr", "1").stdout == "['job.pyz', '--lr', '1'] __main__ 8\n"


@pytest.mark.parametrize("ending", ["end", "exit"])
def test_a_module(python: Run, tmp_path: Path, ending: str) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "train.py").write_text(
        "import sys\nprint(sys.argv, sys.path[0], __name__, __file__, __spec__.name, __package__)\n"
        + ENDINGS[ending]
    )
    assert same(python, "-m", "package.train", "--lr", "1").stdout.count("package.train") == 1


def test_a_failing_module(python: Run, tmp_path: Path) -> None:
    """Its traceback is its own; what runs modules is left out."""
    (tmp_path / "train.py").write_text("raise ValueError('bad batch')\n")
    done = python("-m", "energyopt.applier", "-m", "train")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ValueError: bad batch"
    assert done.stderr.count("File ") == 1


@pytest.mark.parametrize("arguments", [(), ("-c", "print(1)"), ("--help",), ("-m",)])
def test_what_cannot_be_run(python: Run, arguments: tuple[str, ...]) -> None:
    done = python("-m", "energyopt.applier", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")


def test_a_script_that_is_not_there(python: Run) -> None:
    done = python("-m", "energyopt.applier", "nothing.py")
    assert (done.returncode, done.stderr) == (2, "error: cannot open nothing.py: no such file\n")


def test_a_safe_path_stays_as_it_is(python: Run, script: Path) -> None:
    """With -P Python puts no folder in front, and the first entry is not ours to replace."""
    script.write_text("import sys, json; print(sys.path)")
    plain, ours = python("-P", "jobs/train.py"), python("-P", "-m", "energyopt.applier", "jobs/train.py")
    assert (ours.stdout, ours.stderr) == (plain.stdout, plain.stderr)


def test_ctrl_c(python: Run, script: Path) -> None:
    script.write_text("raise KeyboardInterrupt\n")
    done = python("-m", "energyopt.applier", "jobs/train.py")
    assert done.returncode == python("jobs/train.py").returncode
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"


def test_the_script_of_a_pool_of_workers(python: Run, script: Path) -> None:
    """Spawned ones import it again by its path."""
    script.write_text(
        "import multiprocessing as mp\n"
        "def square(x):\n    return x * x\n"
        "if __name__ == '__main__':\n"
        "    with mp.get_context('spawn').Pool(1) as pool:\n        print(pool.map(square, [2, 3]))\n"
    )
    assert same(python, "jobs/train.py").stdout == "[4, 9]\n"


def test_with_a_plan_nothing_changes_for_a_script_that_uses_no_framework(python: Run, script: Path) -> None:
    script.write_text("import sys; print(sorted(m for m in sys.modules if 'energyopt.applier.' in m))")
    done = python("-m", "energyopt.applier", "jobs/train.py", ENERGYOPT_PLAN="nothing.json")
    assert (done.returncode, done.stderr) == (0, "")
    loaded = [name for name in ("session", "helper", "devices", "guard") if f".{name}" in done.stdout]
    assert loaded == [], "every Python process of a job comes by here"
