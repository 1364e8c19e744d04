"""The settings of a pipeline.toml as a table."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from energyopt.planner.tables import Table
from energyopt.schemas.pipeline import Pipeline


def pipeline_tables(settings: Mapping[str, Any]) -> tuple[Table, ...]:
    """Every setting, and whether the file gives it; flags of `plan` may override each."""
    rows = tuple(_row(field.name, field.default, settings) for field in fields(Pipeline))
    return (Table(title="pipeline", columns=("setting", "value", "from"), rows=rows),)


def _row(name: str, default: Any, settings: Mapping[str, Any]) -> tuple[str, str, str]:
    if name in settings:
        return name, str(settings[name]), "this file"
    if default is MISSING:
        return name, "-", "not given"
    return name, str(default), "default"
