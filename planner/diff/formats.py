"""The output formats by name."""

from enum import StrEnum

from energyopt.planner.diff.github import render_github
from energyopt.planner.diff.interface import Renderer
from energyopt.planner.diff.json_format import render_json
from energyopt.planner.diff.markdown import render_markdown
from energyopt.planner.diff.text import render_text


class Format(StrEnum):
    """An output format, as `--format` names it."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    GITHUB = "github"


RENDERERS: dict[Format, Renderer] = {
    Format.TEXT: render_text,
    Format.JSON: render_json,
    Format.MARKDOWN: render_markdown,
    Format.GITHUB: render_github,
}
