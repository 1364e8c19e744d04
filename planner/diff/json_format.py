"""A comparison as one JSON object, in full precision."""

from dataclasses import asdict
from typing import Any

from energyopt.planner.diff.interface import Report
from energyopt.planner.diff.records import Change, ExecutionRow, Group, Side
from energyopt.planner.diff.thresholds import Failure, is_judged
from energyopt.planner.executions import Executions, ordered
from energyopt.schemas.files import canonical_json
from energyopt.schemas.partitions import partitions_to_json

FORMAT = "energyopt-diff"
SCHEMA_VERSION = 1


def render_json(report: Report) -> str:
    """The report as canonical JSON: absent is null, gaps and relative changes are ratios."""
    comparison = report.comparison
    return canonical_json(
        {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "kind": comparison.new.kind,
            "old": _side(comparison.old, report.old_file),
            "new": _side(comparison.new, report.new_file),
            "groups": [_group(group) for group in comparison.groups],
            "clocks": [asdict(row) for row in comparison.clocks],
            "executions": [_execution(row) for row in comparison.executions],
            "deadlines": [
                {"deadline_s": deadline_s, "energy_j": _change(one)}
                for deadline_s, one in comparison.deadlines
            ],
            "limits": asdict(report.limits),
            "failures": [_failure(failure) for failure in report.failures],
            "judged": is_judged(comparison),
            "worse": bool(report.failures),
            "notes": list(comparison.notes),
        }
    )


def _side(side: Side, file: str) -> dict[str, Any]:
    return {
        "file": file,
        "profile_sha256": side.profile_sha256,
        "device": {"name": side.device_name, "kind": side.device_kind, "scope": side.scope},
        "wait_power_w": side.wait_power_w,
        "gpus": side.gpus,
        "pipeline": side.pipeline.to_json(),
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "judged": group.judged,
        "in_old": group.in_old,
        "in_new": group.in_new,
        "changes": {one.quantity: _change(one) for one in group.changes},
    }


def _execution(row: ExecutionRow) -> dict[str, Any]:
    return {
        "stage": row.stage,
        "chunk": row.chunk,
        "kind": str(row.kind),
        "common": row.common,
        "changed": row.changed,
        "nanobatches": {
            "changed": row.recut,
            "old": _nanobatches(row.old),
            "new": _nanobatches(row.new),
        },
        "partitions": {
            name: {"changed": changed, "old": _configs(row.old, name), "new": _configs(row.new, name)}
            for name, changed in row.partitions.items()
        },
    }


def _nanobatches(one: Executions) -> list[dict[str, int]]:
    return [{"nanobatches": parts, "ops": ops} for parts, ops in sorted(one.nanobatches.items())]


def _configs(one: Executions, partition: str) -> list[dict[str, Any]]:
    return [
        partitions_to_json(((partition, config),))[partition] | {"ops": ops}
        for config, ops in ordered(one.configs(partition))
    ]


def _change(one: Change) -> dict[str, float | None]:
    return {"old": one.old, "new": one.new, "absolute": one.absolute, "relative": one.relative}


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "group": failure.group,
        "quantity": None if failure.change is None else failure.change.quantity,
        "text": failure.words(),
    }
