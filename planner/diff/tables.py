"""The tables of a comparison, for the formats that people read."""

from collections.abc import Iterator

from energyopt.planner.diff.interface import Report
from energyopt.planner.diff.records import Change, ClockRow, ClockStats, ExecutionRow, Group
from energyopt.planner.executions import Executions, config_words, nanobatch_words
from energyopt.planner.tables import Table
from energyopt.planner.wording import MISSING, change, number, percent, percent_change

_LABELS = {
    "iteration_time_s": "time, s",
    "energy_j": "energy, J",
    "lower_bound_j": "lower bound, J",
    "gap": "gap",
}


def report_tables(report: Report) -> Iterator[Table]:
    """The tables that have rows, most important first."""
    comparison = report.comparison
    yield _totals(report)
    if comparison.deadlines:
        yield _deadlines(report)
    if any(row.changed or row.old is None or row.new is None for row in comparison.clocks):
        yield _clocks(comparison.clocks)
    if rows := tuple(execution_rows(report)):
        columns = ("partitions of", "partition", "ops", "changed", "old", "new")
        yield Table(title="partitions that change", columns=columns, rows=rows)


def summaries(report: Report) -> list[str]:
    """How many operations change their clock or how they are carried out; none where no plans were compared."""
    comparison = report.comparison
    if not comparison.clocks:
        return []
    changed, common = (sum(getattr(row, name) for row in comparison.clocks) for name in ("changed", "common"))
    found = [f"{changed} of {common} operations change their clock"]
    if comparison.executions:
        changed = sum(row.changed for row in comparison.executions)
        found.append(f"{changed} of {common} operations change how they are carried out")
    return found


def execution_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Name, partition, operations, how many of them change, and how they ran and run: a line for each change."""
    for row in report.comparison.executions:
        if row.recut:
            cut = (_of(one, nanobatch_words(one.nanobatches)) for one in (row.old, row.new))
            yield _op_name(row), "nanobatches", _counts(row.old.ops, row.new.ops), str(row.recut), *cut
        for name, changed in row.partitions.items():
            if changed or not row.common:
                cells = (_of(one, config_words(one.configs(name))) for one in (row.old, row.new))
                yield _op_name(row), name, _counts(row.old.ops, row.new.ops), str(changed), *cells


def _of(one: Executions, words: str) -> str:
    return words if one.ops else MISSING


def _totals(report: Report) -> Table:
    rows = [row for group in report.comparison.groups for row in _group_rows(group)]
    columns = ("", "quantity", "old", "new", "change", "change %")
    return Table(title=f"energy and time ({report.coverage()})", columns=columns, rows=tuple(rows))


def _group_rows(group: Group) -> Iterator[tuple[str, ...]]:
    for one in group.changes if group.in_old or group.in_new else ():
        yield group.name, _LABELS[one.quantity], *_values(one)


def _values(one: Change) -> tuple[str, str, str, str]:
    if one.unit is None:
        return percent(one.old), percent(one.new), percent_change(one.absolute), MISSING
    return (
        number(one.old, one.unit),
        number(one.new, one.unit),
        change(one.absolute, one.unit),
        percent_change(one.relative),
    )


def _deadlines(report: Report) -> Table:
    columns = ("deadline, s", "old, J", "new, J", "change, J", "change %")
    rows = []
    for deadline_s, one in report.comparison.deadlines:
        old, new, by, relative = _values(one)
        rows.append(
            (number(deadline_s, "s"), old, "no point is as fast" if one.new is None else new, by, relative)
        )
    title = f"least energy within the time of each old point ({report.coverage()})"
    return Table(title=title, columns=columns, rows=tuple(rows))


def _clocks(clocks: tuple[ClockRow, ...]) -> Table:
    columns = (
        "clocks of",
        "ops",
        "changed",
        "old mean, MHz",
        "new mean, MHz",
        "old range, MHz",
        "new range, MHz",
    )
    shown = [row for row in clocks if row.changed or row.old is None or row.new is None]
    return Table(title="clocks that change", columns=columns, rows=tuple(_clock_row(row) for row in shown))


def _clock_row(row: ClockRow) -> tuple[str, ...]:
    old, new = row.old, row.new
    return (
        _op_name(row),
        _counts(old.ops if old else 0, new.ops if new else 0),
        str(row.changed),
        _mean(old),
        _mean(new),
        _range(old),
        _range(new),
    )


def _op_name(row: ClockRow | ExecutionRow) -> str:
    chunk = f" chunk {row.chunk}" if row.chunk else ""
    return f"stage {row.stage}{chunk} {row.kind}"


def _counts(old: int, new: int) -> str:
    return str(new) if old == new else f"{old} -> {new}"


def _mean(stats: ClockStats | None) -> str:
    return MISSING if stats is None else f"{stats.mean_mhz:.1f}"


def _range(stats: ClockStats | None) -> str:
    return MISSING if stats is None else f"{stats.min_mhz} to {stats.max_mhz}"
