"""A comparison for a pull-request comment."""

import re

from energyopt.planner.diff.interface import Report
from energyopt.planner.diff.tables import report_tables, summaries
from energyopt.planner.tables import Table
from energyopt.planner.wording import one_line

_SPECIAL = re.compile(r"[\\`*|<>]|(?<=\])(?=[(\[:])")


def render_markdown(report: Report) -> str:
    """Verdict, notes and tables."""
    verdict = "failed" if report.failures else "passed"
    blocks = [f"### energyopt diff {verdict}", escape(report.heading()), escape(report.verdict())]
    if report.failures:
        blocks.append("\n".join(f"- {escape(failure.words())}" for failure in report.failures))
    if report.comparison.notes:
        blocks.append("\n".join(f"- note: {escape(note)}" for note in report.comparison.notes))
    blocks += [_table(table) for table in report_tables(report)]
    if lines := summaries(report):
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def escape(text: str) -> str:
    r"""Foreign text on one line, shown as it stands: a pipe becomes `\|`, and no link or HTML arises."""
    return _SPECIAL.sub(lambda found: "\\" + found[0], one_line(text))


def _table(table: Table) -> str:
    lines = [table.columns, ("---", *("---:" for _ in table.columns[1:])), *table.rows]
    drawn = [_row(line) if index != 1 else f"| {' | '.join(line)} |" for index, line in enumerate(lines)]
    return "\n".join([f"**{escape(table.title)}**", "", *drawn])


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(escape(cell) for cell in cells)} |"
