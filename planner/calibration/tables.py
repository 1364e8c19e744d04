"""A calibration as tables."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from energyopt.planner.calibration.records import Calibration, Fitted
from energyopt.planner.tables import Table
from energyopt.planner.wording import MISSING, gpus, number, percent, percent_change, relative
from energyopt.schemas.profile_metadata import metadata_to_json

if TYPE_CHECKING:
    from energyopt.planner.calibration.records import FittedOp, FittedRun


def calibration_tables(found: Calibration) -> tuple[Table, ...]:
    """What was fitted, how well each run is met, and the operations."""
    return _fitted(found), _runs(found), _ops(found)


def _fitted(found: Calibration) -> Table:
    rows = tuple(_fitted_row(one) for one in found.fitted)
    return Table(
        title="fitted; +- is half the 95 % interval",
        columns=("", "before", "now", "+-", "not fitted: why"),
        rows=rows,
    )


def _fitted_row(one: Fitted) -> tuple[str, ...]:
    digits = 6 if one.unit == "s" else 1
    before, value, half = (
        MISSING if each is None else f"{each:.{digits}f}" for each in (one.before, one.value, one.half_width)
    )
    return f"{one.name}, {one.unit}", before, value, half, one.kept or MISSING


def _runs(found: Calibration) -> Table:
    columns = ("run", "iterations", "time s", "fitted s", "off by", "energy J", "fitted J", "off by")
    stages = max(key.key.stage for key in found.ops) + 1
    return Table(
        title=f"runs; energies of one GPU of each stage with readings ({gpus(stages)} at most)",
        columns=columns,
        rows=tuple(_run_row(one) for one in found.runs),
    )


def _run_row(one: "FittedRun") -> tuple[str, ...]:
    return (
        one.name,
        str(one.iterations),
        number(one.measured_s, "s"),
        number(one.fitted_s, "s"),
        _off(one.fitted_s, one.measured_s),
        number(one.measured_j or None, "J"),
        number(one.fitted_j or None, "J"),
        _off(one.fitted_j, one.measured_j),
    )


def _off(fitted: float, measured: float) -> str:
    off = relative(fitted, measured)
    return MISSING if off is None else percent_change(off)


def _ops(found: Calibration) -> Table:
    columns = (
        "operation",
        "clocks run",
        "ops",
        "time corrected",
        "energy corrected",
        "scatter around the fit",
    )
    return Table(title="operations", columns=columns, rows=tuple(_op_row(one) for one in found.ops))


def _op_row(one: "FittedOp") -> tuple[str, ...]:
    changes = (
        MISSING if ratio is None else percent_change(ratio - 1)
        for ratio in (one.time_ratio, one.energy_ratio)
    )
    return str(one.key), str(one.clocks), str(one.ops), *changes, percent(one.residual)


def calibration_to_json(found: Calibration) -> dict[str, Any]:
    """The same as one JSON object, with the new profile's digest and metadata."""
    return {
        "profile_sha256": found.profile.sha256(),
        "metadata": metadata_to_json(found.profile.metadata),
        "fitted": [asdict(one) for one in found.fitted],
        "runs": [asdict(one) for one in found.runs],
        "ops": [asdict(one) | {"key": str(one.key)} for one in found.ops],
        "scope": list(found.scope),
        "notes": list(found.notes),
    }
