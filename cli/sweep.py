"""The side of `energyopt plan` that plans many layouts: `plan --sweep jobs.toml`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from energyopt.cli import output
from energyopt.cli.targets import refuse_overwrite
from energyopt.schemas.errors import EnergyoptError, RequestError

if TYPE_CHECKING:
    from energyopt.planner.sweep.keeping import Keeper
    from energyopt.planner.sweep.wishes import Wishes
    from energyopt.schemas.sweep import Sweep

SweepFile = Annotated[
    Path | None,
    typer.Option(
        "--sweep",
        metavar="TOML",
        help="Plan every layout that this file's lists combine to, and rank them; then -o writes a sweep.json.",
    ),
]
MaxSlowdown = Annotated[
    float | None,
    typer.Option(
        "--max-slowdown",
        metavar="F",
        help="With --sweep: rank layouts by their energy within F times the max-clock time of the fastest; 1 if "
        "not given.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        metavar="N",
        help="With --sweep: layouts planned at once; a core each if not given.",
    ),
]
KeepDir = Annotated[
    Path | None,
    typer.Option(
        "--keep-dir",
        metavar="DIR",
        help="With --sweep: keep each layout's frontier there, and take those that are there from an earlier run.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFlags:
    """What the command line says of a sweep, beside its file."""

    points: int
    effort: str
    max_switches: int | None
    min_dwell_s: float | None
    only: str | None
    most_options: int | None
    allow_missing: bool
    max_slowdown: float | None
    workers: int | None
    keep_dir: Path | None
    as_json: bool


def plan_sweep(file: Path, destination: Path | None, flags: SweepFlags, beside: Mapping[str, object]) -> int:
    """Plan a sweep, print its tables and write its file.

    beside: what else was given on the command line, by flag; all of it is for one layout alone.

    Raises:
        EnergyoptError: as `run_sweep`, or a flag that a sweep does not know.
    """
    from energyopt.planner.sweep.ranking import check_slowdown
    from energyopt.schemas.files import check_target

    if given := sorted(name for name, value in beside.items() if value):
        raise RequestError(
            f"--sweep plans many layouts and knows no {given[0]}: set it in {file}, or leave it out"
        )
    check_slowdown(1.0 if flags.max_slowdown is None else flags.max_slowdown)
    if destination is not None:
        refuse_overwrite(destination, file)
        check_target(destination)
    sweep = _run(file, destination, flags)
    _print(sweep, as_json=flags.as_json)
    if destination is not None:
        from energyopt.schemas.sweep import write_sweep

        write_sweep(destination, sweep)
        output.say(f"wrote {destination}: {len(sweep.layouts)} layouts")
    return 0


def refuse_sweep_flags(**flags: object) -> None:
    """Refuse what says something of a sweep alone where there is none.

    Raises:
        RequestError: names the flag.
    """
    for name, value in flags.items():
        if value is not None:
            raise RequestError(f"--{name.replace('_', '-')} says something with --sweep alone; add it")


def _run(file: Path, destination: Path | None, flags: SweepFlags) -> "Sweep":
    from energyopt.cli.progress import reporting
    from energyopt.planner.sweep.running import run_sweep
    from energyopt.schemas.profile import read_profile
    from energyopt.schemas.sweep_request import read_sweep_toml

    request = read_sweep_toml(file)
    paths = {name: request.folder / name for name in request.profiles}
    if destination is not None:
        refuse_overwrite(destination, *paths.values())
    with reporting(time_left=True) as progress:
        return run_sweep(
            request,
            {name: read_profile(path) for name, path in paths.items()},
            _wishes(flags),
            max_slowdown=1.0 if flags.max_slowdown is None else flags.max_slowdown,
            workers=-1 if flags.workers is None else flags.workers,
            keeper=_keeper(flags.keep_dir),
            warn=output.warn,
            progress=progress,
        )


def _wishes(flags: SweepFlags) -> "Wishes":
    from energyopt.planner.composition.restriction import Only
    from energyopt.planner.composition.table import Composition
    from energyopt.planner.solve import Effort
    from energyopt.planner.sweep.wishes import Wishes

    return Wishes(
        points=flags.points,
        effort=Effort(flags.effort),
        max_switches=flags.max_switches,
        min_dwell_s=flags.min_dwell_s,
        composition=Composition(most=flags.most_options, allow_missing=flags.allow_missing),
        only=None if flags.only is None else Only(flags.only),
    )


def _keeper(folder: Path | None) -> "Keeper | None":
    from energyopt.planner.sweep.keeping import Keeper

    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnergyoptError(f"cannot keep frontiers in {folder}: {error.strerror}") from error
    keeper = Keeper(folder=folder)
    keeper.check()
    return keeper


def _print(sweep: "Sweep", *, as_json: bool) -> None:
    from energyopt.planner.views.sweep import recommendation, sweep_tables, sweep_to_view

    if as_json:
        from energyopt.schemas.files import canonical_json

        output.data(canonical_json(sweep_to_view(sweep)))
        return
    for index, table in enumerate(sweep_tables(sweep)):
        if index:
            output.data("")
        output.table(table.columns, table.rows, table.title)
    output.say(recommendation(sweep))
