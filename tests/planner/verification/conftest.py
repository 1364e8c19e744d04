"""Runs whose truth is known by formula."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def recorded() -> ModuleType:
    """The module recorded.py beside this file: with importlib's import mode tests cannot import a neighbour."""
    path = Path(__file__).with_name("recorded.py")
    spec = importlib.util.spec_from_file_location("recorded", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["recorded"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
