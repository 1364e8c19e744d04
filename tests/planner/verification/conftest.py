"""Runs whose truth is known by formula."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from energyopt.planner.verification.records import Verification
from energyopt.planner.verification.runs import Recorded
from energyopt.planner.verification.verify import verify
from energyopt.schemas.plan import Prediction

Check = Callable[..., Verification]


@pytest.fixture
def check(recorded: ModuleType, tmp_path: Path) -> Check:
    """Verify a run of random clocks of a job, with a plan whose prediction is off by the given factors."""

    def run(job: Any, time: float = 1.0, energy: float = 1.0, **settings: Any) -> Verification:
        verifying = {
            name: settings.pop(name)
            for name in ("profile", "schedule", "baselines", "skip", "time_only", "tolerance")
            if name in settings
        }
        verifying.setdefault("skip", 0)
        clocks = job.clocks(5)
        plan = job.plan(clocks)
        assert plan.predicted is not None
        predicted = Prediction(
            iteration_time_s=plan.predicted.iteration_time_s * time,
            energy_j=plan.predicted.energy_j * energy,
            stage_energy_j=settings.pop("stage_energy_j", None),
        )
        plan = replace(plan, predicted=predicted, alternatives=settings.pop("alternatives", ()))
        file, digest = recorded.write(plan, tmp_path)
        change = settings.pop("change", lambda one: one)
        telemetry = change(job.record(clocks, plan_sha256=digest, **settings))
        return verify(plan, file, Recorded(file="t", telemetry=telemetry), **verifying)

    return run
