"""A comparison as GitHub workflow commands: annotations on the run."""

from energyopt.planner.diff.interface import Report
from energyopt.planner.diff.records import Group
from energyopt.planner.wording import change, number, percent_change

TITLE = "energyopt diff"


def render_github(report: Report) -> str:
    """One error for each failure, one warning for each note, and a notice with the numbers."""
    lines = [_command("error", TITLE, failure.words()) for failure in report.failures]
    lines += [_command("warning", TITLE, note) for note in report.comparison.notes]
    numbers = [_numbers(group) for group in report.comparison.groups if group.judged and group.in_old]
    text = "\n".join([report.verdict(), report.heading(), *numbers])
    lines.append(_command("notice", TITLE, text))
    return "\n".join(lines) + "\n"


def _numbers(group: Group) -> str:
    parts = [
        f"{one.quantity} {number(one.old, one.unit)} -> {number(one.new, one.unit)} {one.unit} "
        f"({change(one.absolute, one.unit)} {one.unit}, {percent_change(one.relative)})"
        for one in group.changes
        if one.unit is not None
    ]
    return f"{group.name}: {'; '.join(parts)}"


def _command(level: str, title: str, text: str) -> str:
    return f"::{level} title={escape_property(title)}::{escape_data(text)}"


def escape_data(text: str) -> str:
    """Text as the message of a workflow command: percent signs and line ends are encoded."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Text as a property of a workflow command: colons and commas are encoded too."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")
