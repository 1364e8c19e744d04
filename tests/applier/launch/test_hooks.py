"""Doing something right after a module's import, without the module or anybody else noticing."""

import importlib
import importlib.util
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from energyopt.applier.launch.hooks import after_import

NAMES = ("frame_w0rk", "frame_w0rk.core", "frame_w0rk.core.schedules", "lonely_m0dule")


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with a module that its own __init__ imports from, and a module by itself; none is imported yet."""
    core = tmp_path / "frame_w0rk" / "core"
    core.mkdir(parents=True)
    (tmp_path / "frame_w0rk" / "__init__.py").write_text("")
    (core / "__init__.py").write_text("from frame_w0rk.core.schedules import run\n")
    (core / "schedules.py").write_text("def run():\n    return 'plain'\n")
    (tmp_path / "lonely_m0dule.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield tmp_path
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("modules")
def test_a_module_that_is_imported_later() -> None:
    seen: list[ModuleType] = []
    after_import(("lonely_m0dule",), seen.append)
    assert seen == []
    module = importlib.import_module("lonely_m0dule")
    assert seen == [module]
    assert importlib.import_module("lonely_m0dule") is module
    assert len(seen) == 1, "once"
    assert module.value == 1, "it had run by then"


@pytest.mark.usefixtures("modules")
def test_a_module_that_is_there_already() -> None:
    module = importlib.import_module("lonely_m0dule")
    seen: list[ModuleType] = []
    after_import(("lonely_m0dule", "frame_w0rk.core.schedules"), seen.append)
    assert seen == [module]


@pytest.mark.usefixtures("modules")
def test_a_module_of_a_package_before_others_take_names_from_it() -> None:
    """`from schedules import run` in the package's own __init__ gets what was put there."""

    def hook(module: ModuleType) -> None:
        module.run = lambda: "hooked"  # type: ignore[attr-defined]

    after_import(("frame_w0rk.core.schedules",), hook)
    package = importlib.import_module("frame_w0rk.core")
    assert package.run() == "hooked"
    assert package.schedules.run() == "hooked"


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("name", NAMES)
def test_spec_and_loader_are_as_they_would_be(name: str) -> None:
    plain = importlib.import_module(name)
    for one in NAMES:
        sys.modules.pop(one, None)
    seen: list[ModuleType] = []
    after_import((name,), seen.append)
    hooked = importlib.import_module(name)
    assert seen == [hooked]
    assert hooked is not plain
    assert type(hooked.__loader__) is type(plain.__loader__)
    assert type(hooked.__spec__.loader) is type(plain.__spec__.loader)  # type: ignore[union-attr]
    assert hooked.__spec__ == plain.__spec__
    assert hooked.__file__ == plain.__file__
    assert hooked.__dict__.keys() == plain.__dict__.keys()


@pytest.mark.usefixtures("modules")
def test_looking_for_a_module_does_not_import_it() -> None:
    seen: list[ModuleType] = []
    after_import(("lonely_m0dule",), seen.append)
    spec = importlib.util.find_spec("lonely_m0dule")
    assert spec is not None
    assert seen == []
    assert spec.loader.get_source("lonely_m0dule") == "value = 1\n"  # type: ignore[union-attr]


@pytest.mark.usefixtures("modules")
def test_a_module_that_is_not_there() -> None:
    after_import(("nothing_h3re",), lambda _: pytest.fail("there is nothing"))
    with pytest.raises(ModuleNotFoundError, match="nothing_h3re"):
        importlib.import_module("nothing_h3re")


def test_a_module_that_fails_may_be_imported_again(modules: Path) -> None:
    path = modules / "lonely_m0dule.py"
    path.write_text("raise RuntimeError('not yet')\n")
    seen: list[ModuleType] = []
    after_import(("lonely_m0dule",), seen.append)
    with pytest.raises(RuntimeError, match="not yet"):
        importlib.import_module("lonely_m0dule")
    assert seen == []
    path.write_text("value = 22\n")
    importlib.invalidate_caches()
    assert importlib.import_module("lonely_m0dule").value == 22
    assert len(seen) == 1


@pytest.mark.usefixtures("modules")
def test_hooks_of_this_kind_live_beside_each_other() -> None:
    """Each asks all others where the module is, and must not be asked by them in turn without end."""
    seen: list[int] = []
    for number in range(3):
        after_import(("lonely_m0dule",), lambda _, number=number: seen.append(number))
    importlib.import_module("lonely_m0dule")
    assert 2 in seen, "the one that is asked first"
    assert len(seen) == len(set(seen))


@pytest.mark.usefixtures("modules")
def test_other_modules_are_not_looked_at() -> None:
    after_import(("lonely_m0dule",), lambda _: pytest.fail("not this one"))
    assert importlib.import_module("frame_w0rk.core").run() == "plain"


def test_threads_that_import_at_once(modules: Path) -> None:
    (modules / "lonely_m0dule.py").write_text("import time\ntime.sleep(0.05)\nvalue = 1\n")
    seen: list[ModuleType] = []
    after_import(("lonely_m0dule",), seen.append)
    found: list[ModuleType] = []
    threads = [
        threading.Thread(target=lambda: found.append(importlib.import_module("lonely_m0dule")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    assert seen == found[:1]


FRAMEWORK = "megatron.core.pipeline_parallel.schedules"


def test_a_framework_that_cannot_be_hooked_is_named_and_works(tmp_path: Path) -> None:
    """Nothing of what an adapter needs is in it."""
    folder = tmp_path / Path(*FRAMEWORK.split(".")[:-1])
    folder.mkdir(parents=True)
    for parent in (folder, folder.parent, folder.parent.parent):
        (parent / "__init__.py").write_text("")
    (folder / "schedules.py").write_text("value = 7\n")
    code = (
        "import os; os.environ['ENERGYOPT_PLAN'] = 'nothing.json'\n"
        "from energyopt.applier.launch.start import start; start(); start()\n"
        f"import {FRAMEWORK} as schedules; print(schedules.value)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "7\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith("energyopt: rank 0: ")
    assert "megatron" in line.lower()
    assert line.endswith("training goes on, and nothing is set or measured in it")


def test_a_hooked_jobs_session_can_be_asked_for(tmp_path: Path) -> None:
    """From the framework's import on; where nothing is hooked, one that does nothing."""
    pytest.importorskip("torch", reason="needs torch: pip install energyopt[torch]")
    code = (
        "import os; os.environ['ENERGYOPT_PLAN'] = 'nothing.json'\n"
        "from energyopt.applier.launch.start import start; start()\n"
        "from energyopt.applier import current_session\n"
        "print(type(current_session()).__name__)\n"
        "import torch.distributed.pipelining.schedules\n"
        "current_session().set_slowdown(1.1); print(type(current_session()).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert (done.stdout.split(), done.stderr) == (["OffSession", "LateSession"], "")
