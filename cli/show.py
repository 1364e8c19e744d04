"""`energyopt show`: what a file of this tool holds, as tables, as JSON, or as a picture."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from energyopt.cli import output
from energyopt.cli.targets import refuse_overwrite, same_file
from energyopt.schemas.errors import RequestError
from energyopt.schemas.files import reading_once

if TYPE_CHECKING:
    from energyopt.planner.tables import Table
    from energyopt.schemas.frontier import Frontier

    View: TypeAlias = "tuple[dict[str, Any], tuple[Table, ...]]"

_Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Profile, frontier, plan, telemetry, list for Zeus or pipeline.toml; or several frontiers of one job, "
        "side by side.",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print everything in the file as one JSON object.")]
_Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="IMAGE", help="Draw a frontier, or several, to IMAGE (.png, .svg or .pdf)."
    ),
]
_Timeline = Annotated[
    tuple[str, Path] | None,
    typer.Option(
        "--timeline",
        metavar="K IMAGE",
        help="Draw the timeline of a frontier's point K (its number, or a name such as best_edp) to IMAGE.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command `show`."""
    app.command("show", short_help="Show any file of this tool, as tables, JSON or a picture.")(show)


def show(files: _Files, *, as_json: _Json = False, plot: _Plot = None, timeline: _Timeline = None) -> int:
    """Show a file that this tool writes or reads; every total says how many GPUs it covers."""
    with reading_once():
        value, tables = (
            _view(files[0], plot, timeline) if len(files) == 1 else _compare(files, plot, timeline)
        )
    if as_json:
        from energyopt.schemas.files import canonical_json

        output.data(canonical_json(value))
    else:
        _print(tables)
    return 0


def _view(file: Path, plot: Path | None, timeline: tuple[str, Path] | None) -> "View":
    from energyopt.schemas.detect import FRONTIER, detect_format

    kind = detect_format(file)
    if kind == FRONTIER:
        return _show_frontier(file, plot, timeline)
    _refuse_pictures(file, kind, plot, timeline)
    return _VIEWS[kind](file)


def _compare(files: list[Path], plot: Path | None, timeline: tuple[str, Path] | None) -> "View":
    from energyopt.planner.views import comparison
    from energyopt.schemas.frontier import read_frontier

    if timeline is not None:
        raise RequestError("--timeline draws one frontier's point; give one file")
    frontiers, names = [read_frontier(file) for file in files], [str(file) for file in files]
    comparison.check_one_job(frontiers, names)
    labels = comparison.labels(frontiers, names)
    if plot is not None:
        from energyopt.planner.plots.canvas import check_suffix, save
        from energyopt.planner.plots.comparison_plot import draw_comparison

        for file in files:
            refuse_overwrite(plot, file, flag="--plot")
        check_suffix(plot)
        save(draw_comparison(frontiers, labels), plot)
        output.say(f"wrote {plot}")
    return comparison.comparison_to_json(frontiers, labels), (comparison.comparison_table(frontiers, labels),)


def _print(tables: "tuple[Table, ...]") -> None:
    for index, table in enumerate(tables):
        if index:
            output.data("")
        output.table(table.columns, table.rows, table.title)


def _show_frontier(file: Path, plot: Path | None, timeline: tuple[str, Path] | None) -> "View":
    from energyopt.planner.views.frontier import frontier_tables
    from energyopt.planner.views.summary import frontier_to_json
    from energyopt.schemas.frontier import read_frontier

    frontier = read_frontier(file)
    _check_targets(file, plot, timeline[1] if timeline else None)
    if plot is not None or timeline is not None:
        _draw(frontier, plot, timeline)
    return frontier_to_json(frontier), frontier_tables(frontier)


def _check_targets(file: Path, plot: Path | None, timeline: Path | None) -> None:
    for flag, image in (("--plot", plot), ("--timeline", timeline)):
        if image is not None:
            refuse_overwrite(image, file, flag=flag)
    if plot is not None and timeline is not None and same_file(plot, timeline):
        raise RequestError(f"--plot and --timeline would both write {plot}; give two files")


def _draw(frontier: "Frontier", plot: Path | None, timeline: tuple[str, Path] | None) -> None:
    """Check the whole request before the first picture is drawn."""
    from energyopt.planner.plots.canvas import check_suffix, save
    from energyopt.planner.selection import by_name

    for image in (plot, timeline[1] if timeline else None):
        if image is not None:
            check_suffix(image)
    index = None if timeline is None else by_name(frontier, timeline[0]).index
    if plot is not None:
        from energyopt.planner.plots.frontier_plot import draw_frontier

        save(draw_frontier(frontier), plot)
        output.say(f"wrote {plot}")
    if timeline is not None and index is not None:
        from energyopt.planner.plots.timeline_plot import draw_timeline

        save(draw_timeline(frontier, index), timeline[1])
        output.say(f"wrote {timeline[1]}")


def _refuse_pictures(file: Path, kind: str, plot: Path | None, timeline: tuple[str, Path] | None) -> None:
    from energyopt.schemas.detect import PLAN

    if timeline is not None and kind == PLAN:
        raise RequestError(
            f"{file} is a plan, which holds clocks and no times; give --timeline the frontier it came from"
        )
    for flag, wanted in (("--plot", plot), ("--timeline", timeline)):
        if wanted is not None:
            raise RequestError(
                f"{flag} draws a frontier, and {file} is of format {kind}; give a frontier file"
            )


def _show_profile(file: Path) -> "View":
    from energyopt.planner.views.profile import profile_tables
    from energyopt.planner.views.summary import profile_to_json
    from energyopt.schemas.profile import read_profile

    profile = read_profile(file)
    return profile_to_json(profile), profile_tables(profile)


def _show_plan(file: Path) -> "View":
    from energyopt.planner.views.plan import plan_tables
    from energyopt.schemas.plan import plan_to_json, read_plan

    plan = read_plan(file)
    return plan_to_json(plan), plan_tables(plan)


def _show_telemetry(file: Path) -> "View":
    from energyopt.planner.views.telemetry import telemetry_tables, telemetry_to_json
    from energyopt.schemas.telemetry import read_telemetry

    telemetry = read_telemetry(file)
    return telemetry_to_json(telemetry, str(file)), telemetry_tables(telemetry, str(file))


def _show_pipeline(file: Path) -> "View":
    from energyopt.planner.views.pipeline import pipeline_tables
    from energyopt.schemas.pipeline import read_pipeline_toml

    settings = read_pipeline_toml(file)
    return settings, pipeline_tables(settings)


def _show_zeus(file: Path) -> "View":
    from energyopt.applier.zeus import read_zeus_list
    from energyopt.planner.views.zeus import zeus_tables, zeus_to_json

    listed = read_zeus_list(file)
    return zeus_to_json(listed), zeus_tables(listed)


_VIEWS: dict[str, Callable[[Path], "View"]] = {
    "energyopt-profile": _show_profile,
    "energyopt-plan": _show_plan,
    "energyopt-telemetry": _show_telemetry,
    "pipeline.toml": _show_pipeline,
    "zeus-list": _show_zeus,
}
