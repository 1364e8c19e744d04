"""How many points a search may measure, and in what portions."""

from collections.abc import Sequence

from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.search.initial import FIRST
from energyopt.profiler.search.space import Space
from energyopt.profiler.search.spaces_of import searched_partitions
from energyopt.profiler.workloads.interface import Workload
from energyopt.schemas.errors import RequestError

SHARE = 0.1
"""The budget where none is given, as a share of all points."""


def points_allowed(spaces: Sequence[Space], asked: int | None) -> int:
    """The budget of points, over all partitions.

    Raises:
        RequestError: what is asked for does not even hold the points that are measured first.
    """
    sequential = sum(len(space.sequential) for space in spaces)
    points = sum(map(len, spaces))
    needed = sum(min(len(space), len(space.sequential) + FIRST) for space in spaces)
    if asked is None:
        return max(needed, round(SHARE * points))
    if asked < needed:
        raise RequestError(
            f"--search-points {asked} is too few: sequential execution at every clock takes {sequential}, and the "
            f"first points of {len(spaces)} partitions are {needed - sequential} more; give at least {needed} of "
            f"{points}, or fewer --clocks"
        )
    return min(asked, points)


def points_a_turn(partitions: int) -> int:
    """How many points are proposed from one fit of the model."""
    return max(4, partitions)


def check_search(workload: Workload, settings: Settings) -> None:
    """Refuse too small a budget before anything is measured.

    Raises:
        RequestError: says how many points are needed.
    """
    if settings.search:
        planned_points(workload, settings)


def planned_points(workload: Workload, settings: Settings) -> int:
    """How many points a search will measure at most, should the sweep measure all clocks."""
    found = searched_partitions(workload, settings.clocks_mhz or (1,), lambda _name, _clock: None)
    return points_allowed([one.space for one in found], settings.search_points)
