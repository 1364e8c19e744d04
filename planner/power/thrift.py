"""A problem restricted to options of little power."""

import math
from collections.abc import Mapping

from energyopt.planner.composition.table import Offer
from energyopt.planner.options import OptionTable
from energyopt.planner.power.floor import mean_power_w
from energyopt.planner.problem import Problem, build_problem
from energyopt.schemas.ops import OpKey
from energyopt.schemas.options import Option


def levels_w(offer: Offer) -> list[float]:
    """What options may draw at most, rising; at the last level all are allowed."""
    tables = offer.offered.values()
    return sorted({mean_power_w(one) for table in tables for options in table.values() for one in options})


def restricted(problem: Problem, offer: Offer, level_w: float) -> Problem:
    """The problem with options of at most a power alone; of each operation the thriftiest is always allowed.

    Its bound is that of such plans only.
    """
    assert problem.way is not None
    return build_problem(
        problem.schedule,
        problem.graph,
        _at_most(offer.measured, level_w),
        problem.wait_power_w,
        problem.fixed_time_s,
        _at_most(offer.offered[problem.way], level_w),
        problem.way,
    )


def _at_most(table: Mapping[OpKey, tuple[Option, ...]], level_w: float) -> OptionTable:
    return {key: _thrifty(options, level_w) for key, options in table.items()}


def _thrifty(options: tuple[Option, ...], level_w: float) -> tuple[Option, ...]:
    """Each way to cut the microbatch keeps its thriftiest option."""
    least_w: dict[int, float] = {}
    for one in options:
        least_w[one.nanobatches] = min(mean_power_w(one), least_w.get(one.nanobatches, math.inf))
    return tuple(one for one in options if mean_power_w(one) <= max(level_w, least_w[one.nanobatches]))
