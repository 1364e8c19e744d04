"""`energyopt show`: what a file of this tool holds, as tables, as JSON, or as a picture."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from energyopt.cli import output
from energyopt.cli.pictures import Pictures, check_targets, draw, refuse_pictures
from energyopt.cli.targets import refuse_overwrite
from energyopt.schemas.errors import RequestError
from energyopt.schemas.files import reading_once

if TYPE_CHECKING:
    from energyopt.planner.tables import Table

    View: TypeAlias = "tuple[dict[str, Any], tuple[Table, ...]]"

_Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Profile, frontier, sweep, plan, telemetry, list for Zeus or pipeline.toml; or several frontiers of "
        "one job, side by side.",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print everything in the file as one JSON object.")]
_Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="IMAGE",
        help="Draw a frontier, or several, or a sweep, to IMAGE (.png, .svg or .pdf).",
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
_Power = Annotated[
    tuple[str, Path] | None,
    typer.Option(
        "--power",
        metavar="K IMAGE",
        help="Draw the power of a frontier's point K over an iteration to IMAGE, and show the average and peak of "
        "each node.",
    ),
]
_GpusPerNode = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="GPUs of a node, numbered stage by stage, for --power; 8 if not given."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command `show`."""
    app.command("show", short_help="Show any file of this tool, as tables, JSON or a picture.")(show)


def show(
    files: _Files,
    *,
    as_json: _Json = False,
    plot: _Plot = None,
    timeline: _Timeline = None,
    power: _Power = None,
    gpus_per_node: _GpusPerNode = None,
) -> int:
    """Show a file that this tool writes or reads; every total says how many GPUs it covers."""
    if gpus_per_node is not None and power is None:
        raise RequestError("--gpus-per-node says something with --power alone; add it")
    pictures = Pictures(plot, timeline, power, gpus_per_node)
    with reading_once():
        value, tables = _view(files[0], pictures) if len(files) == 1 else _compare(files, pictures)
    if as_json:
        from energyopt.schemas.files import canonical_json

        output.data(canonical_json(value))
    else:
        _print(tables)
    return 0


def _view(file: Path, pictures: Pictures) -> "View":
    from energyopt.schemas.detect import FRONTIER, SWEEP, detect_format

    kind = detect_format(file)
    if kind == FRONTIER:
        return _show_frontier(file, pictures)
    if kind == SWEEP:
        return _show_sweep(file, pictures)
    refuse_pictures(file, kind, pictures)
    return _VIEWS[kind](file)


def _compare(files: list[Path], pictures: Pictures) -> "View":
    from energyopt.planner.views import comparison
    from energyopt.schemas.frontier import read_frontier

    for flag, _ in pictures.images():
        if flag != "--plot":
            raise RequestError(f"{flag} draws one frontier's point; give one file")
    frontiers, names = [read_frontier(file) for file in files], [str(file) for file in files]
    comparison.check_one_job(frontiers, names)
    labels = comparison.labels(frontiers, names)
    if (plot := pictures.plot) is not None:
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


def _show_frontier(file: Path, pictures: Pictures) -> "View":
    from energyopt.planner.selection import by_name
    from energyopt.planner.views.frontier import frontier_tables
    from energyopt.planner.views.summary import frontier_to_json
    from energyopt.schemas.frontier import read_frontier

    frontier = read_frontier(file)
    check_targets(file, pictures)
    if pictures.images():
        draw(frontier, pictures)
    value, tables = frontier_to_json(frontier), frontier_tables(frontier)
    if pictures.power is None:
        return value, tables
    from energyopt.planner.power.nodes import GPUS_PER_NODE
    from energyopt.planner.views.power import power_tables, power_to_json

    wanted = by_name(frontier, pictures.power[0]).index, pictures.gpus_per_node or GPUS_PER_NODE
    beside = {"power": power_to_json(frontier, *wanted)}
    return value | beside, (*tables, *power_tables(frontier, *wanted))


def _show_sweep(file: Path, pictures: Pictures) -> "View":
    from energyopt.planner.views.sweep import sweep_tables, sweep_to_view
    from energyopt.schemas.sweep import read_sweep

    sweep = read_sweep(file)
    for flag, _ in pictures.images():
        if flag != "--plot":
            raise RequestError(
                f"{flag} draws a frontier's point; give a frontier, which plan --keep-dir keeps"
            )
    check_targets(file, pictures)
    if pictures.plot is not None:
        from energyopt.planner.plots.canvas import check_suffix, save
        from energyopt.planner.plots.sweep_plot import draw_sweep

        check_suffix(pictures.plot)
        save(draw_sweep(sweep), pictures.plot)
        output.say(f"wrote {pictures.plot}")
    return sweep_to_view(sweep), sweep_tables(sweep)


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
