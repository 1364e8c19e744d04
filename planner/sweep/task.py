"""Planning one layout, wherever joblib runs it: all that it needs goes in, and nothing is read or written."""

from dataclasses import dataclass

from energyopt.planner.frontier import plan_frontier
from energyopt.planner.schedules.registry import build_schedule
from energyopt.planner.sweep.relayout import relaid
from energyopt.planner.sweep.wishes import Wishes
from energyopt.schemas.errors import EnergyoptError
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.profile import Profile
from energyopt.schemas.profile_metadata import ProfileMetadata
from energyopt.schemas.sweep import FailedLayout, Layout, PlannedLayout, SweepPoint
from energyopt.schemas.sweep_request import SweepRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One layout to plan; number: its place among all; keep: its whole frontier is wanted, not the points alone."""

    number: int
    layout: Layout
    pipeline: Pipeline
    profile: Profile
    profile_sha256: str
    wishes: Wishes
    keep: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a task.

    defect: it failed in a way that no input should lead to.
    """

    number: int
    found: PlannedLayout | FailedLayout
    frontier: Frontier | None = None
    warnings: tuple[str, ...] = ()
    defect: bool = False


def pipeline_of(layout: Layout, request: SweepRequest, metadata: ProfileMetadata) -> Pipeline:
    """A layout's pipeline; times that the request leaves open are the profile's, or 0."""
    asked = {"p2p_time_s": request.p2p_time_s, "fixed_time_s": request.fixed_time_s}
    return Pipeline(
        stages=layout.stages,
        microbatches=layout.microbatches,
        schedule=layout.schedule,
        chunks_per_stage=layout.chunks_per_stage,
        tensor_parallel=layout.tensor_parallel,
        context_parallel=layout.context_parallel,
        data_parallel=layout.data_parallel,
        **{
            name: (getattr(metadata, name) or 0.0) if time_s is None else time_s
            for name, time_s in asked.items()
        },
    )


def plan_layout(task: Task) -> Outcome:
    """Plan one layout; whatever happens to it is an outcome, so that the other layouts go on."""
    try:
        return _planned(task)
    except EnergyoptError as error:
        failed = FailedLayout(layout=task.layout, error=str(error))
        return Outcome(number=task.number, found=failed)
    except Exception as error:  # a defect of ours, in one layout of many
        text = f"a defect of energyopt: {type(error).__name__}: {error}"
        return Outcome(number=task.number, found=FailedLayout(layout=task.layout, error=text), defect=True)


def summary(layout: Layout, frontier: Frontier, file: str | None = None) -> PlannedLayout:
    """The points of a layout's frontier for all GPUs: its replicas run in step."""
    replicas = layout.data_parallel
    points = tuple(
        SweepPoint(
            iteration_time_s=point.iteration_time_s,
            energy_j=point.energy_j * replicas,
            lower_bound_j=point.lower_bound_j * replicas,
            average_power_w=point.average_power_w * replicas,
            peak_power_w=None if point.peak_power_w is None else point.peak_power_w * replicas,
        )
        for point in frontier.points
    )
    return PlannedLayout(
        layout=layout,
        max_clock_time_s=frontier.max_clock.iteration_time_s,
        max_clock_energy_j=frontier.max_clock.energy_j * replicas,
        points=points,
        frontier=file,
    )


def profile_of(task: Task) -> Profile:
    """The profile that the layout's plans rest on."""
    layout = task.layout
    return relaid(task.profile, layout.stages, layout.chunks_per_stage, task.profile_sha256)


def _planned(task: Task) -> Outcome:
    layout, wishes = task.layout, task.wishes
    warnings: list[str] = []
    profile = profile_of(task)
    frontier = plan_frontier(
        profile,
        task.pipeline,
        build_schedule(task.pipeline),
        points=wishes.points,
        effort=wishes.effort,
        limits=wishes.limits(profile),
        composition=wishes.composition,
        only=wishes.only,
        warn=warnings.append,
    )
    return Outcome(
        number=task.number,
        found=summary(layout, frontier),
        frontier=frontier if task.keep else None,
        warnings=tuple(warnings),
    )
