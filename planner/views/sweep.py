"""A sweep over layouts as tables that a person can decide from, and as JSON."""

from collections.abc import Callable, Sequence
from typing import Any

from energyopt.planner.sweep.layouts import names_of
from energyopt.planner.sweep.ranking import Standing, deadline_s, ranked, stretches
from energyopt.planner.tables import Table
from energyopt.planner.wording import device, number, percent_change, relative
from energyopt.schemas.sweep import Sweep, SweepPoint, sweep_to_json

_PLANS = ("time_s", "energy_j", "J/token", "tokens/s", "average power_w", "peak power_w")
"""What plans are told by; from the fastest to the one of least energy where there are several."""


def sweep_tables(sweep: Sweep) -> tuple[Table, ...]:
    """The plans that nothing beats, all layouts by rank, and what has no plan; totals cover all GPUs of the job."""
    others = (_failed(sweep), _left_out(sweep))
    return _best(sweep), _ranking(sweep), *(table for table in others if table.rows)


def sweep_title(sweep: Sweep) -> str:
    """Model, GPU and batch in one line."""
    return (
        f"{sweep.model} on {device(sweep.device_name, sweep.device_kind)}, {sweep.global_batch} sequences of "
        f"{sweep.sequence_length} tokens an iteration"
    )


def sweep_to_view(sweep: Sweep) -> dict[str, Any]:
    """The file's members, and who stands where, by index into `layouts`."""
    best = [
        {"layout": one.layout, "iteration_time_s": point.iteration_time_s, "energy_j": point.energy_j}
        for one in stretches(sweep)
        for point in one.points
    ]
    ranking = {
        "deadline_s": deadline_s(sweep),
        "names": names_of([one.layout for one in sweep.layouts]),
        "layouts": [_standing_to_json(one) for one in ranked(sweep)],
        "unbeaten": best,
    }
    return sweep_to_json(sweep) | {"ranking": ranking}


def recommendation(sweep: Sweep) -> str:
    """The layout of least energy within the deadline, in words."""
    best, names = ranked(sweep)[0], names_of([one.layout for one in sweep.layouts])
    if best.in_time is None:
        fastest = min(one.points[0].iteration_time_s for one in sweep.layouts)
        return f"no layout has a plan within {_deadline(sweep)}: the fastest takes {number(fastest, 's')} s"
    values = zip(_PLANS, _cells([best.in_time], sweep), strict=True)
    told = ", ".join(f"{name} {value}" for name, value in values)
    return f"least energy within {_deadline(sweep)}: {names[best.layout]} ({told})"


def _deadline(sweep: Sweep) -> str:
    return f"{number(deadline_s(sweep), 's')} s ({sweep.max_slowdown:g} x the max-clock time of the fastest layout)"


def _best(sweep: Sweep) -> Table:
    names = names_of([one.layout for one in sweep.layouts])
    rows = [
        (
            names[one.layout],
            str(sweep.layouts[one.layout].layout.gpus),
            str(len(one.points)),
            *_cells(one.points, sweep),
        )
        for one in stretches(sweep)
    ]
    return Table(
        title=f"{sweep_title(sweep)}: the best layout for every time (plans that no other beats)",
        columns=("layout", "GPUs", "plans", *_PLANS),
        rows=tuple(rows),
    )


def _ranking(sweep: Sweep) -> Table:
    standings = ranked(sweep)
    columns = ("layout", "GPUs", "max clock_s", *_PLANS, "energy_j in time", "vs best", "front")
    return Table(
        title=f"{len(standings)} layouts by their energy within {_deadline(sweep)}; front 1 has plans that "
        "nothing beats, front 2 where those layouts are taken away, and so on",
        columns=columns,
        rows=tuple(_row(sweep, one, standings[0]) for one in standings),
    )


def _row(sweep: Sweep, standing: Standing, best: Standing) -> tuple[str, ...]:
    names, planned = names_of([one.layout for one in sweep.layouts]), sweep.layouts[standing.layout]
    own_j = None if standing.in_time is None else standing.in_time.energy_j
    best_j = None if best.in_time is None else best.in_time.energy_j
    return (
        names[standing.layout],
        str(planned.layout.gpus),
        number(planned.max_clock_time_s, "s"),
        *_cells(planned.points, sweep),
        number(own_j, "J"),
        percent_change(relative(own_j, best_j)),
        str(standing.front),
    )


def _cells(points: Sequence[SweepPoint], sweep: Sweep) -> tuple[str, ...]:
    """The columns of `_PLANS`."""
    tokens = sweep.tokens
    telling: tuple[Callable[[SweepPoint], str], ...] = (
        lambda point: number(point.iteration_time_s, "s"),
        lambda point: number(point.energy_j, "J"),
        lambda point: f"{point.energy_j / tokens:.4f}",
        lambda point: f"{tokens / point.iteration_time_s:.0f}",
        lambda point: number(point.average_power_w, "W"),
        lambda point: number(point.peak_power_w, "W"),
    )
    ends = [points[0], points[-1]] if len(points) > 1 else [points[0]]
    return tuple(" to ".join(tell(point) for point in ends) for tell in telling)


def _failed(sweep: Sweep) -> Table:
    names = names_of([one.layout for one in sweep.failed])
    rows = tuple((name, one.error) for name, one in zip(names, sweep.failed, strict=True))
    return Table(title="not planned", columns=("layout", "why"), rows=rows)


def _left_out(sweep: Sweep) -> Table:
    rows = tuple((one.combination, one.reason) for one in sweep.left_out)
    return Table(title="combinations that make no layout", columns=("combination", "why"), rows=rows)


def _standing_to_json(one: Standing) -> dict[str, Any]:
    point = one.in_time
    return {
        "layout": one.layout,
        "front": one.front,
        "iteration_time_s": None if point is None else point.iteration_time_s,
        "energy_j": None if point is None else point.energy_j,
    }
