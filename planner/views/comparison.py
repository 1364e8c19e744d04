"""Several frontiers of one job side by side: what each kind of choice is worth at the same iteration time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from energyopt.planner.tables import Table
from energyopt.planner.views.frontier import NOISE, job_title
from energyopt.planner.wording import MISSING, number, percent_change, relative
from energyopt.schemas.errors import RequestError

if TYPE_CHECKING:
    from energyopt.schemas.frontier import Frontier

_NAMES = {None: "all together", "clocks": "clocks only", "overlap": "overlap only"}


def labels(frontiers: Sequence["Frontier"], files: Sequence[str]) -> list[str]:
    """What each frontier may choose, or the names of the files where that does not tell them apart."""
    found = [_NAMES.get(frontier.only, str(frontier.only)) for frontier in frontiers]
    return found if len(set(found)) == len(found) else list(files)


def check_one_job(frontiers: Sequence["Frontier"], files: Sequence[str]) -> None:
    """Refuse to put different jobs side by side.

    Raises:
        RequestError: another pipeline, GPU, scope or number of GPUs.
    """
    first = frontiers[0]
    for frontier, file in zip(frontiers[1:], files[1:], strict=True):
        for name in ("pipeline", "device_name", "scope", "gpus"):
            if getattr(frontier, name) != getattr(first, name):
                raise RequestError(
                    f"{file} and {files[0]} are of different jobs: their {name.replace('_', ' ')} differs; "
                    "give frontiers of one job, or compare them with diff"
                )


def comparison_table(frontiers: Sequence["Frontier"], names: Sequence[str]) -> Table:
    """Against the max-clock baseline: the fastest iteration, the least energy, and the energy in the same time."""
    rows = [("max clock", *_baseline(frontiers[0]))]
    rows += [(name, *_row(frontier, frontiers)) for frontier, name in zip(frontiers, names, strict=True)]
    columns = (
        "plans of",
        "fastest_s",
        "time vs max clock",
        "least energy_j",
        "energy vs max clock",
        "energy_j in max-clock time",
        "vs max clock",
        "energy_j in the time all can keep",
        "vs max clock",
    )
    return Table(title=f"{job_title(frontiers[0])}: side by side", columns=columns, rows=tuple(rows))


def comparison_to_json(frontiers: Sequence["Frontier"], names: Sequence[str]) -> dict[str, Any]:
    """Baseline and, for each frontier, its points' times and energies."""
    baseline = frontiers[0].max_clock
    return {
        "gpus": frontiers[0].gpus,
        "max_clock": {"iteration_time_s": baseline.iteration_time_s, "energy_j": baseline.energy_j},
        "common_time_s": common_time_s(frontiers),
        "frontiers": [
            {
                "name": name,
                "iteration_time_s": [point.iteration_time_s for point in frontier.points],
                "energy_j": [point.energy_j for point in frontier.points],
                "lower_bound_j": [point.lower_bound_j for point in frontier.points],
            }
            for frontier, name in zip(frontiers, names, strict=True)
        ],
    }


def common_time_s(frontiers: Sequence["Frontier"]) -> float:
    """The shortest iteration time that every frontier has a plan for."""
    return max(frontier.points[0].iteration_time_s for frontier in frontiers)


def energy_within_j(frontier: "Frontier", deadline_s: float) -> float | None:
    """The least energy of a plan that keeps a deadline."""
    fitting = [
        point.energy_j for point in frontier.points if point.iteration_time_s <= deadline_s * (1 + NOISE)
    ]
    return min(fitting, default=None)


def _baseline(frontier: "Frontier") -> tuple[str, ...]:
    one = frontier.max_clock
    time_s, energy_j = number(one.iteration_time_s, "s"), number(one.energy_j, "J")
    return time_s, MISSING, energy_j, MISSING, energy_j, MISSING, MISSING, MISSING


def _row(frontier: "Frontier", frontiers: Sequence["Frontier"]) -> tuple[str, ...]:
    baseline, fastest, least = frontier.max_clock, frontier.points[0], frontier.points[-1]
    same_j = energy_within_j(frontier, baseline.iteration_time_s)
    common_j = energy_within_j(frontier, common_time_s(frontiers))
    return (
        number(fastest.iteration_time_s, "s"),
        percent_change(relative(fastest.iteration_time_s, baseline.iteration_time_s)),
        number(least.energy_j, "J"),
        percent_change(relative(least.energy_j, baseline.energy_j)),
        number(same_j, "J"),
        percent_change(relative(same_j, baseline.energy_j)),
        number(common_j, "J"),
        percent_change(relative(common_j, baseline.energy_j)),
    )
