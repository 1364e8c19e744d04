"""A frontier as tables."""

from typing import TYPE_CHECKING

from energyopt.planner.tables import Table
from energyopt.planner.views.savings import savings_table
from energyopt.planner.wording import MISSING, device, gpus, number, percent, percent_change, relative

if TYPE_CHECKING:
    from energyopt.schemas.frontier import Frontier
    from energyopt.schemas.frontier_points import FrontierPoint
    from energyopt.schemas.plan import Baseline

POINT_COLUMNS = (
    "point",
    "time_s",
    "energy_j",
    "bound_j",
    "gap",
    "time vs max clock",
    "energy vs max clock",
    "energy vs best single clock",
    "static share",
    "average power_w",
    "peak power_w",
    "clock switches",
    "names",
)
NOISE = 1e-9  # relative; a single clock as fast as a point up to this is as fast


def frontier_tables(frontier: "Frontier") -> tuple[Table, ...]:
    """The job, the baselines and the points; every total says how many GPUs it covers."""
    savings = savings_table(frontier)
    beside = () if savings is None else (savings,)
    return _header(frontier), _baselines(frontier), *beside, points_table(frontier)


def job_title(frontier: "Frontier") -> str:
    """Device, pipeline and number of GPUs in one line."""
    job = frontier.pipeline
    chunks = f", {job.chunks_per_stage} chunks per stage" if job.chunks_per_stage > 1 else ""
    return (
        f"{device(frontier.device_name, frontier.device_kind)}, {job.stages} stages x {job.microbatches} "
        f"microbatches, {job.schedule}{chunks}, {gpus(frontier.gpus)}"
    )


def same_deadline(frontier: "Frontier", point: "FrontierPoint") -> "Baseline | None":
    """The best single clock for the whole job that is as fast as a point, if any is."""
    return frontier.best_single_clock(point.iteration_time_s * (1 + NOISE))


def _header(frontier: "Frontier") -> Table:
    job = frontier.pipeline
    rows = (
        ("device", device(frontier.device_name, frontier.device_kind)),
        ("scope", frontier.scope),
        ("wait power, W", number(frontier.wait_power_w, "W")),
        ("GPUs that totals cover", str(frontier.gpus)),
        ("profile", frontier.profile_sha256),
        *((name, str(value)) for name, value in job.to_json().items()),
        ("operations", str(len(frontier.schedule.ops))),
        ("most clock changes", MISSING if frontier.max_switches is None else str(frontier.max_switches)),
        ("a clock is kept for at least, s", number(frontier.min_dwell_s, "s")),
        *((("plans choose", f"{frontier.only} only"),) if frontier.only else ()),
        *_peak_rule(frontier),
        *(
            (("dearer for options left out, at most", percent(frontier.thinning_error)),)
            if frontier.thinning_error
            else ()
        ),
    )
    return Table(title="frontier", columns=("", "value"), rows=rows)


def _peak_rule(frontier: "Frontier") -> tuple[tuple[str, str], ...]:
    cap_w, lasts_s = frontier.peak_power_cap_w, frontier.peak_lasts_s
    cap = () if cap_w is None else (("peak power is at most, W", number(cap_w, "W")),)
    return (*cap, *((("peak power lasts for at least, s", number(lasts_s, "s")),) if lasts_s else ()))


def _baselines(frontier: "Frontier") -> Table:
    best = same_deadline(frontier, frontier.points[0]) if frontier.points else None
    rows = [("max clock", *_baseline(frontier.max_clock))]
    if best is not None:
        rows.append(("best single clock as fast as point 0", *_baseline(best)))
    columns = ("baseline", "sm_clock_mhz", "time_s", "energy_j")
    return Table(title=f"baselines ({gpus(frontier.gpus)})", columns=columns, rows=tuple(rows))


def _baseline(one: "Baseline") -> tuple[str, str, str]:
    clock = MISSING if one.sm_clock_mhz is None else str(one.sm_clock_mhz)
    return clock, number(one.iteration_time_s, "s"), number(one.energy_j, "J")


def points_table(frontier: "Frontier") -> Table:
    """One row for each point, beside both baselines."""
    rows = (_point(frontier, index, point) for index, point in enumerate(frontier.points))
    return Table(title=f"points ({gpus(frontier.gpus)})", columns=POINT_COLUMNS, rows=tuple(rows))


def _point(frontier: "Frontier", index: int, point: "FrontierPoint") -> tuple[str, ...]:
    baseline, single = frontier.max_clock, same_deadline(frontier, point)
    return (
        str(index),
        number(point.iteration_time_s, "s"),
        number(point.energy_j, "J"),
        number(point.lower_bound_j, "J"),
        percent(point.gap),
        percent_change(relative(point.iteration_time_s, baseline.iteration_time_s)),
        percent_change(relative(point.energy_j, baseline.energy_j)),
        percent_change(relative(point.energy_j, None if single is None else single.energy_j)),
        percent(point.static_j / point.energy_j if point.energy_j else None),
        number(point.average_power_w, "W"),
        number(point.peak_power_w, "W"),
        str(point.clock_switches),
        " ".join(point.names),
    )
