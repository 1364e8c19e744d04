"""How the ranks of a run come to measure the same windows at the same clocks."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, TypeVar

from energyopt.profiler.measurement.budget import SweepPlan, plan_sweep
from energyopt.profiler.measurement.calibration import Calibration
from energyopt.profiler.measurement.settings import Settings, Timing
from energyopt.profiler.measurement.team import Team
from energyopt.schemas.errors import EnergyoptError, MeasurementError
from energyopt.schemas.profile import EnergySource

Found = TypeVar("Found")


class Step(IntEnum):
    """Where a rank can fail and the others go on without it, in the order in which a run comes there."""

    FIRST_LOCK = 1
    CALIBRATION = 2
    RESTING = 3
    PROFILE = 4


class AgreedError(MeasurementError):
    """All ranks raise it, with one text that names the rank at fault."""


class SetAsideError(MeasurementError):
    """This rank cannot measure, and the others do so without it; `step` is where it failed."""

    def __init__(self, problem: str, step: Step) -> None:
        super().__init__(problem)
        self.step = step


def try_together(
    team: Team,
    step: Step,
    action: Callable[[], Found],
    *,
    allow_partial: bool | None = False,
    failures: type[EnergyoptError] = EnergyoptError,
) -> Found:
    """What `action` gives here, once all ranks have heard on which of them it failed.

    Args:
        team: all ranks.
        step: where the run is.
        action: something of this rank's own.
        allow_partial: as in `agree_to_go_on`.
        failures: what of its errors is agreed on; others end this rank alone.

    Raises:
        SetAsideError: it failed here, and other ranks go on.
        AgreedError: no rank goes on.
        EnergyoptError: a process on its own has only itself to tell.
    """
    problem = None
    try:
        found = action()
    except failures as error:
        if team.size == 1:
            raise
        problem = error
    agree_to_go_on(team, None if problem is None else str(problem), allow_partial=allow_partial)
    if problem is not None:
        raise SetAsideError(str(problem), step) from problem
    return found


def agree_to_go_on(
    team: Team, problem: str | None, *, able: bool = True, allow_partial: bool | None = False
) -> None:
    """Go on if no rank has a problem, or if not all have one and the user allows that.

    Args:
        team: all ranks.
        problem: why this rank's board cannot be measured or clocked, if so.
        able: whether this rank's board counts: one that was given up earlier does not.
        allow_partial: whether ranks without such a problem may measure without those that have one; None where
            they never may.

    Raises:
        AgreedError: no rank goes on.
    """
    found = team.gather([able, problem])
    failed = [f"rank {rank}: {one}" for rank, (_, one) in enumerate(found) if one is not None]
    if not failed or (allow_partial and any(counts and one is None for counts, one in found)):
        return
    more = f" (and {len(failed) - 1} more ranks)" if len(failed) > 1 else ""
    advice = "; --allow-partial goes on without such ranks" if allow_partial is False else ""
    raise AgreedError(f"{failed[0]}{more}; all ranks stop and nothing is left set{advice}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What one rank knows before the sweep.

    run_s: time of one run of each of its kernels at the highest clock, s.
    beside_s: what the run takes besides the sweep, s: what is done by now, warming up, timing switches.
    """

    calibration: Calibration
    timing: Timing
    run_s: Mapping[str, float]
    beside_s: float = 0.0


def agree_on_plan(team: Team, settings: Settings, trial: Trial | None) -> SweepPlan:
    """One plan for all ranks: the coarsest tick, the longest windows, the noisiest board and the most work.

    Args:
        team: all ranks.
        settings: the user's choices, the same on all ranks.
        trial: what this rank knows; None on one whose board cannot be measured.

    Raises:
        MeasurementError: no rank can measure anything.
        RequestError: the sweep does not fit into the budget.
    """
    trials = [one for one in team.gather(None if trial is None else asdict(trial)) if one is not None]
    if not trials:
        raise MeasurementError("no rank has a board that can be measured; `energyopt doctor` says why")
    clocks = settings.clocks_mhz or _clock_as_it_is(trials)
    sources = {str(one["calibration"]["source"]) for one in trials}
    if len(sources) > 1:
        raise AgreedError(
            "some ranks have an energy counter that works and others have not, and their energies could not be "
            "joined: give --energy-source power"
        )
    beside_s = max(one["beside_s"] for one in trials)
    return plan_sweep(
        clocks, settings, _slowest_timing(trials), _noisiest(trials), _most_work(trials), beside_s
    )


def _clock_as_it_is(trials: list[dict[str, Any]]) -> tuple[int]:
    """The clock that boards ran at when none was set: the lowest among them, for the slowest decides."""
    clocks = [one["calibration"]["sm_clock_mhz"] for one in trials]
    if None in clocks:
        raise MeasurementError(
            "this board's clock can neither be set nor read, so no row could say which clock it is for"
        )
    return (min(clocks),)


def _slowest_timing(trials: list[dict[str, Any]]) -> Timing:
    timings = [one["timing"] for one in trials]
    return Timing(**{name: max(one[name] for one in timings) for name in timings[0]})


def _noisiest(trials: list[dict[str, Any]]) -> Calibration:
    found = max((one["calibration"] for one in trials), key=lambda one: float(one["power_noise"]))
    return Calibration(**(found | {"source": EnergySource(found["source"])}))


def _most_work(trials: list[dict[str, Any]]) -> dict[str, float]:
    works: list[dict[str, float]] = [one["run_s"] for one in trials]
    return max(works, key=lambda work: sum(work.values()))
