"""A comparison for a terminal or a log."""

from energyopt.planner.diff.interface import Report
from energyopt.planner.diff.tables import report_tables, summaries
from energyopt.planner.tables import plain
from energyopt.planner.wording import one_line


def render_text(report: Report) -> str:
    """Heading, notes, tables and the verdict."""
    blocks = ["\n".join([one_line(report.heading()), *_notes(report)])]
    blocks += [plain(table) for table in report_tables(report)]
    if lines := summaries(report):
        blocks.append("\n".join(lines))
    found = [f"  {one_line(failure.words())}" for failure in report.failures]
    blocks.append("\n".join([report.verdict(), *found]))
    return "\n\n".join(blocks) + "\n"


def _notes(report: Report) -> list[str]:
    return [f"note: {one_line(note)}" for note in report.comparison.notes]
