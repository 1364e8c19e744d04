"""plan.json: one chosen point of a frontier, as the runtime shim loads it. Standard library only."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from energyopt import __version__
from energyopt.schemas.files import canonical_json, read_json, write_bytes
from energyopt.schemas.nodes import Node, check_header
from energyopt.schemas.pipeline import Pipeline, pipeline_from_json
from energyopt.schemas.planned_ops import Stages, stages_from_json, stages_to_json

FORMAT = "energyopt-plan"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the profile says that a plan costs; energies cover `Plan.gpus` GPUs.

    `gap` is energy_j / lower_bound_j - 1. The bound is null where nothing was proven. stage_energy_j: of one GPU of
    each stage; null in plans that were not chosen from a frontier.
    """

    iteration_time_s: float
    energy_j: float
    lower_bound_j: float | None = None
    gap: float | None = None
    stage_energy_j: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """An iteration without a plan: all operations at one clock, or each at its highest (clock null)."""

    iteration_time_s: float
    energy_j: float
    sm_clock_mhz: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A further point of the same frontier, for a pipeline that must slow down for a straggler."""

    predicted: Prediction
    stages: Stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan file in memory; `stages[s]` lists the operations of stage s in execution order.

    clock_switch_latency_s: how long a clock takes to land on this GPU, as the profile measured it.
    """

    profile_sha256: str | None
    device_name: str
    device_kind: str
    scope: str = "gpu_board"
    clock_switch_latency_s: float | None = None
    pipeline: Pipeline
    gpus: int
    predicted: Prediction | None
    max_clock: Baseline | None
    best_single_clock: Baseline | None
    stages: Stages
    alternatives: tuple[Alternative, ...] = ()


def write_plan(path: Path, plan: Plan) -> None:
    """Write a plan as canonical JSON, atomically."""
    write_bytes(path, plan_text(plan).encode())


def plan_text(plan: Plan) -> str:
    """The exact content of the plan's file."""
    return canonical_json(plan_to_json(plan))


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """The plan as a JSON value."""
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        "profile": {"sha256": plan.profile_sha256},
        "device": _device_to_json(plan),
        "pipeline": plan.pipeline.to_json(),
        "gpus": plan.gpus,
        "predicted": _prediction_to_json(plan.predicted),
        "baselines": {
            "max_clock": _baseline_to_json(plan.max_clock),
            "best_single_clock": _baseline_to_json(plan.best_single_clock),
        },
        "stages": stages_to_json(plan.stages),
        "alternatives": [
            {"predicted": _prediction_to_json(other.predicted), "stages": stages_to_json(other.stages)}
            for other in plan.alternatives
        ],
    }


def _device_to_json(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = {"name": plan.device_name, "kind": plan.device_kind, "scope": plan.scope}
    if plan.clock_switch_latency_s is not None:
        found["clock_switch_latency_s"] = plan.clock_switch_latency_s
    return found


def read_plan(path: Path) -> Plan:
    """Read and check a plan file.

    Raises:
        FileFormatError: names the file and the field at fault.
    """
    return plan_from_json(Node(path, "$", read_json(path)))


def plan_from_json(root: Node) -> Plan:
    """The plan that a parsed JSON value holds; the counterpart of `plan_to_json`."""
    check_header(root, FORMAT, SCHEMA_VERSION)
    pipeline = pipeline_from_json(root.field("pipeline"))
    predicted = root.optional("predicted")
    scope = root.field("device").optional("scope")
    latency = root.field("device").optional("clock_switch_latency_s")
    baselines = root.field("baselines")
    digest = root.field("profile").optional("sha256")
    alternatives = root.optional("alternatives")
    return Plan(
        profile_sha256=None if digest is None else digest.text(),
        device_name=root.field("device").field("name").text(),
        device_kind=root.field("device").field("kind").text(),
        scope="gpu_board" if scope is None else scope.text(),
        clock_switch_latency_s=None if latency is None else latency.number(minimum=0.0),
        pipeline=pipeline,
        gpus=root.field("gpus").integer(minimum=1),
        predicted=None if predicted is None else _prediction(predicted, pipeline),
        max_clock=_baseline(baselines.optional("max_clock")),
        best_single_clock=_baseline(baselines.optional("best_single_clock")),
        stages=stages_from_json(root.field("stages"), pipeline),
        alternatives=()
        if alternatives is None
        else tuple(_alternative(node, pipeline) for node in alternatives.items()),
    )


def _prediction_to_json(prediction: Prediction | None) -> dict[str, Any] | None:
    if prediction is None:
        return None
    found: dict[str, Any] = {
        "iteration_time_s": prediction.iteration_time_s,
        "energy_j": prediction.energy_j,
        "lower_bound_j": prediction.lower_bound_j,
        "gap": prediction.gap,
    }
    if prediction.stage_energy_j is not None:
        found["stage_energy_j"] = list(prediction.stage_energy_j)
    return found


def _baseline_to_json(baseline: Baseline | None) -> dict[str, Any] | None:
    if baseline is None:
        return None
    found: dict[str, Any] = {"iteration_time_s": baseline.iteration_time_s, "energy_j": baseline.energy_j}
    if baseline.sm_clock_mhz is not None:
        found["sm_clock_mhz"] = baseline.sm_clock_mhz
    return found


def _prediction(node: Node, pipeline: Pipeline) -> Prediction:
    bound, gap = node.optional("lower_bound_j"), node.optional("gap")
    return Prediction(
        iteration_time_s=node.field("iteration_time_s").number(minimum=0.0),
        energy_j=node.field("energy_j").number(),
        lower_bound_j=None if bound is None else bound.number(),
        gap=None if gap is None else gap.number(),
        stage_energy_j=_stage_energies(node.optional("stage_energy_j"), pipeline),
    )


def _stage_energies(node: Node | None, pipeline: Pipeline) -> tuple[float, ...] | None:
    if node is None:
        return None
    found = tuple(one.number(minimum=0.0) for one in node.items())
    if len(found) != pipeline.stages:
        node.fail(f"{len(found)} stages, but the pipeline has {pipeline.stages}")
    return found


def _baseline(node: Node | None) -> Baseline | None:
    if node is None:
        return None
    clock = node.optional("sm_clock_mhz")
    return Baseline(
        iteration_time_s=node.field("iteration_time_s").number(minimum=0.0),
        energy_j=node.field("energy_j").number(),
        sm_clock_mhz=None if clock is None else clock.integer(minimum=1),
    )


def _alternative(node: Node, pipeline: Pipeline) -> Alternative:
    return Alternative(
        predicted=_prediction(node.field("predicted"), pipeline),
        stages=stages_from_json(node.field("stages"), pipeline),
    )
