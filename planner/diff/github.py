"""A comparison as GitHub workflow commands: annotations on the run."""

from energyopt.planner.diff.interface import Report
from energyopt.planner.diff.records import Group
from energyopt.planner.diff.tables import execution_rows, summaries
from energyopt.planner.wording import change, number, percent_change

TITLE = "energyopt diff"
_SHOWN = 10  # changes of partitions in a message


def render_github(report: Report) -> str:
    """One error for each failure, one warning for each note, a notice with the numbers, one with the partitions."""
    lines = [_command("error", TITLE, failure.words()) for failure in report.failures]
    lines += [_command("warning", TITLE, note) for note in report.comparison.notes]
    numbers = [_numbers(group) for group in report.comparison.groups if group.judged and group.in_old]
    text = "\n".join([report.verdict(), report.heading(), *numbers])
    lines.append(_command("notice", TITLE, text))
    if changes := _partitions(report):
        lines.append(_command("notice", TITLE, "\n".join(changes)))
    return "\n".join(lines) + "\n"


def _numbers(group: Group) -> str:
    parts = [
        f"{one.quantity} {number(one.old, one.unit)} -> {number(one.new, one.unit)} {one.unit} "
        f"({change(one.absolute, one.unit)} {one.unit}, {percent_change(one.relative)})"
        for one in group.changes
        if one.unit is not None
    ]
    return f"{group.name}: {'; '.join(parts)}"


def _partitions(report: Report) -> list[str]:
    """What changes in how operations are carried out, as many lines as a message can hold."""
    found = [
        f"{name}, {partition}: {changed} of {ops} change, {old} -> {new}"
        for name, partition, ops, changed, old, new in execution_rows(report)
    ]
    more = [f"and {len(found) - _SHOWN} more changes of partitions"] if len(found) > _SHOWN else []
    return [*summaries(report), *found[:_SHOWN], *more] if found else []


def _command(level: str, title: str, text: str) -> str:
    return f"::{level} title={escape_property(title)}::{escape_data(text)}"


def escape_data(text: str) -> str:
    """Text as the message of a workflow command: percent signs and line ends are encoded."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Text as a property of a workflow command: colons and commas are encoded too."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")
