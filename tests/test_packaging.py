"""The layout: links, public modules, the way imports go, versions."""

import ast
import importlib
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

import energyopt

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("applier", "cli", "planner", "profiler", "schemas")
MAY_IMPORT = {
    "cli": {"applier", "cli", "planner", "profiler", "schemas"},
    "planner": {"planner", "schemas"},
    "profiler": {"applier", "profiler", "schemas"},
    "applier": {"applier", "schemas"},
    "schemas": {"schemas"},
}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_link_of_each_package_is_there_and_relative(package: str) -> None:
    link = ROOT / "src" / "energyopt" / package
    assert link.is_symlink(), f"src/energyopt/{package} must be a link to ../../{package}"
    assert str(link.readlink()) == f"../../{package}"


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_come_from_this_checkout(package: str) -> None:
    module = importlib.import_module(f"energyopt.{package}")
    assert module.__file__ is not None
    assert Path(module.__file__).resolve().parent == ROOT / package


@pytest.mark.parametrize(
    "package",
    [
        *PACKAGES,
        "planner/calibration",
        "planner/diff",
        "planner/formulations",
        "planner/plots",
        "planner/limits",
        "planner/realisation",
        "planner/sweep",
        "planner/telemetry",
        "planner/verification",
        "planner/views",
        "applier/adapters",
        "applier/devices",
        "applier/devices/nvml",
        "applier/guard",
        "applier/helper",
        "applier/kareus",
        "applier/launch",
        "applier/overlap",
        "applier/runtime",
        "profiler/benches",
        "profiler/distributed",
        "profiler/doctor",
        "profiler/importers",
        "profiler/importers/kareus",
        "profiler/measurement",
        "profiler/search",
        "profiler/simulation",
        "profiler/workloads",
        "profiler/workloads/blocks",
        "profiler/workloads/layers",
    ],
)
def test_all_lists_the_modules_that_are_there(package: str) -> None:
    """What can be imported is a promise; a module that comes or goes shows here."""
    found = {
        path.stem if path.suffix == ".py" else path.name
        for path in (ROOT / package).iterdir()
        if (path.suffix == ".py" and not path.stem.startswith("__")) or (path / "__init__.py").exists()
    }
    listed = importlib.import_module(f"energyopt.{package.replace('/', '.')}").__all__
    assert list(listed) == sorted(found)


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        for name in _imported(path):
            parts = name.split(".")
            if parts[0] == "energyopt" and len(parts) > 1 and parts[1] in PACKAGES:
                assert parts[1] in MAY_IMPORT[package], f"{path} imports {name}"


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_dependency_is_pinned_for_tests() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    pinned = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert {name.split(">=")[0].lower() for name in wanted} <= pinned


def test_the_changelog_has_this_version() -> None:
    assert f"## {energyopt.__version__} " in (ROOT / "CHANGELOG.md").read_text()
