"""A verification as tables and words."""

from collections.abc import Iterator

from energyopt.planner.tables import Table
from energyopt.planner.verification.records import OpRow, Quantity, Saving, Section, Verdict, Verification
from energyopt.planner.verification.statistics import Estimate, Interval
from energyopt.planner.wording import MISSING, gpus, number, percent, percent_change

_COLUMNS = (
    *("per iteration", "predicted", "measured", "iterations", "+-", "spread", "off by", "95 % interval"),
    "verdict",
)
_MOST_ROWS = 40
_OPS = ("operation", "asked MHz", "seen MHz", "ops", "time s", "+-", "predicted s", "off by", "held back by")


def verification_tables(found: Verification) -> tuple[Table, ...]:
    """One table for each alternative that ran, the saving, and the operations."""
    tables = [_section(found, one) for one in found.sections]
    if found.saving is not None:
        tables.append(_saving(found.saving))
    if found.ops:
        tables.append(_ops(found.ops))
    return tuple(tables)


def words(found: Verification) -> str:
    """The outcome in one line, with all that was not compared or not judged, and why."""
    parts = [
        f"{'' if section.alternative == 0 else f'alternative {section.alternative}: '}{name} {_off(quantity)}"
        for section in found.sections
        for name, quantity in (("time", section.time), ("energy", section.energy))
    ]
    limit = f"tolerance +-{100 * found.tolerance:g} %"
    wide = any(
        one.verdict is Verdict.UNKNOWN and one.deviation is not None and one.why is None
        for section in found.sections
        for one in (section.time, section.energy)
    )
    advice = "; record more iterations to narrow the interval" if wide else ""
    return f"{'NOT VERIFIED' if found.failed else 'verified'}, {limit}: {', '.join(parts)}{advice}"


def _off(quantity: Quantity) -> str:
    why = f": {quantity.why}" if quantity.why else ""
    one = quantity.deviation
    if one is None:
        return f"not compared ({quantity.verdict}{why})"
    interval = "no interval" if one.low is None else f"95 %: {_interval(one)}"
    return f"{percent_change(one.value)}, {interval} ({quantity.verdict}{why})"


def _section(found: Verification, one: Section) -> Table:
    name = "the plan" if one.alternative == 0 else f"alternative {one.alternative}"
    covered = sum(row.boards for row in one.stages)
    title = (
        f"{name}: {len(one.numbers)} iterations, prediction {found.prediction}; +- is half the 95 % interval of "
        "the mean, spread the standard deviation"
    )
    rows = [("time s", *_cells(one.time, "s")), (f"energy J ({gpus(covered)})", *_cells(one.energy, "J"))]
    for row in one.stages:
        rows.append((f"stage {row.stage}: time s", *_cells(row.time, "s")))
        rows.append((f"stage {row.stage}: energy J ({gpus(row.boards)})", *_cells(row.energy, "J")))
    return Table(title=title, columns=_COLUMNS, rows=tuple(rows))


def _cells(one: Quantity, unit: str) -> tuple[str, ...]:
    off = one.deviation
    return (
        number(one.predicted, unit),
        *_estimate(one.measured, unit),
        MISSING if off is None else percent_change(off.value),
        MISSING if off is None else _interval(off),
        str(one.verdict) if off is not None or one.verdict.judged else MISSING,
    )


def _estimate(one: Estimate | None, unit: str) -> tuple[str, str, str, str]:
    if one is None:
        return MISSING, "0", MISSING, MISSING
    return (
        number(one.mean, unit),
        str(one.iterations),
        percent(one.relative_half_width),
        percent(one.relative_std),
    )


def _interval(one: Interval) -> str:
    if one.low is None or one.high is None:
        return MISSING
    return f"{percent_change(one.low)} to {percent_change(one.high)}"


def _saving(one: Saving) -> Table:
    if one.measured:
        assert one.iterations is not None
        against = "the baseline run" if one.baselines == 1 else f"{one.baselines} baseline runs"
        between = "not " if one.baselines == 1 else ""
        title = (
            f"measured against {against} ({gpus(one.gpus)}; {one.iterations[0]} and {one.iterations[1]} "
            f"iterations, stalls included; differences between runs are {between}in the interval)"
        )
    else:
        title = f"predicted, not measured: against every operation at its highest clock ({gpus(one.gpus)})"
    rows = (
        ("time s", number(one.baseline_time_s, "s"), percent_change(one.time.value), _interval(one.time)),
        (
            "energy J",
            number(one.baseline_energy_j, "J"),
            MISSING if one.energy is None else percent_change(one.energy.value),
            MISSING if one.energy is None else _interval(one.energy),
        ),
    )
    return Table(
        title=title, columns=("per iteration", "baseline", "the plan's change", "95 % interval"), rows=rows
    )


def _ops(rows: tuple[OpRow, ...]) -> Table:
    """The rows with the most time, in their order; a plan may use dozens of clocks for each operation."""
    title = "operations by clock, on each stage's slowest rank"
    if len(rows) > _MOST_ROWS:
        title += f"; the {_MOST_ROWS} of {len(rows)} rows with the most time (--json has all)"
        least_s = sorted(map(_total_s, rows), reverse=True)[_MOST_ROWS - 1]
        rows = tuple(row for row in rows if _total_s(row) >= least_s)
    return Table(title=title, columns=_OPS, rows=tuple(_op_cells(rows)))


def _total_s(row: OpRow) -> float:
    return 0.0 if row.time.measured is None else row.ops * row.time.measured.mean


def _op_cells(rows: tuple[OpRow, ...]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        measured, off = row.time.measured, row.time.deviation
        chunk = f", chunk {row.chunk}" if row.chunk else ""
        yield (
            f"{row.op} of stage {row.stage}{chunk}",
            MISSING if row.sm_clock_mhz is None else str(row.sm_clock_mhz),
            number(row.achieved_sm_clock_mhz, "MHz"),
            str(row.ops),
            MISSING if measured is None else f"{measured.mean:.5g}",
            percent(None if measured is None else measured.relative_half_width),
            MISSING if row.time.predicted is None else f"{row.time.predicted:.5g}",
            MISSING if off is None else percent_change(off.value),
            ", ".join(row.throttle) or MISSING,
        )
