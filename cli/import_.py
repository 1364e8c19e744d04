"""`energyopt import`: what other tools measured or planned, as this tool's own files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from energyopt.cli import import_kareus, output
from energyopt.cli.import_options import Json, Output, PowerLimit, WaitPower, print_coverage
from energyopt.cli.targets import refuse_overwrite
from energyopt.profiler.importers.provenance import WORKLOAD_KEYS, check_device_name, parse_workload
from energyopt.profiler.importers.units import EnergyUnit, TimeUnit

if TYPE_CHECKING:
    from energyopt.profiler.importers.interface import Coverage, ImportedProfile

_Source = Annotated[Path, typer.Argument(metavar="SRC", help="File to read.")]
_Gpu = Annotated[str, typer.Option("--gpu", help="Name of the GPU that SRC was measured on or planned for.")]


def register(app: typer.Typer) -> None:
    """Add the command group `import`."""
    group = typer.Typer(
        help="Read profiles and plans of other tools.", no_args_is_help=True, rich_markup_mode=None
    )
    group.command("lowtime")(lowtime)
    group.command("zeus")(zeus)
    import_kareus.register(group)
    app.add_typer(group, name="import")


def lowtime(
    source: _Source,
    destination: Output,
    gpu: _Gpu,
    wait_power_w: WaitPower,
    time_unit: Annotated[TimeUnit, typer.Option(help="Unit of the time column.")] = TimeUnit.SECOND,
    energy_unit: Annotated[EnergyUnit, typer.Option(help="Unit of the energy column.")] = EnergyUnit.JOULE,
    power_limit_w: PowerLimit = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload",
            metavar="KEY=VALUE",
            help=f"What was measured: {', '.join(WORKLOAD_KEYS)}. Repeatable.",
        ),
    ] = None,
    allow_incomplete: Annotated[
        bool, typer.Option("--allow-incomplete", help="Warn about missing measurements instead of refusing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Read a stage profile of Lowtime or Perseus.

    It is a CSV file with stage, instruction, frequency (MHz), time and energy, and perhaps chunk and
    ranks.
    """
    from energyopt.profiler.importers.lowtime import read_lowtime_csv
    from energyopt.schemas.profile import write_profile

    refuse_overwrite(destination, source)
    imported = read_lowtime_csv(
        source,
        device_name=gpu,
        wait_power_w=wait_power_w,
        time_unit=time_unit,
        energy_unit=energy_unit,
        power_limit_w=power_limit_w,
        workload=parse_workload(workload or []),
        strict=not allow_incomplete,
    )
    write_profile(destination, imported.profile)
    for warning in imported.warnings:
        output.warn(warning)
    _print_coverage(imported, as_json=as_json)
    gpus = imported.profile.metadata.gpus_per_stage
    output.say(f"wrote {destination}: {len(imported.profile.rows)} rows, {gpus} GPU(s) per stage")


def zeus(source: _Source, destination: Output, gpu: _Gpu) -> None:
    """Read a frequency plan of Zeus, as data.

    It is a list with one list of (instruction, MHz) for each stage, as the pipeline frequency server uses.
    """
    from energyopt.applier.zeus import plan_from_zeus
    from energyopt.schemas.plan import write_plan

    refuse_overwrite(destination, source)
    check_device_name(gpu)
    plan = plan_from_zeus(source, device_name=gpu)
    write_plan(destination, plan)
    job = plan.pipeline
    output.say(
        f"wrote {destination}: {job.stages} stages, {job.microbatches} microbatches, {job.schedule}; "
        "a frequency plan predicts neither time nor energy"
    )


def _print_coverage(imported: "ImportedProfile", *, as_json: bool) -> None:
    chunks = any(one.chunk for one in imported.coverage)
    place = ("stage", "chunk") if chunks else ("stage",)
    columns = (*place, "instruction", "clocks", "lowest MHz", "highest MHz", "GPUs", "missing")
    rows = [_coverage_row(one, chunks) for one in imported.coverage]
    print_coverage(imported, columns, rows, as_json=as_json)


def _coverage_row(one: "Coverage", chunks: bool) -> tuple[str, ...]:
    place = (one.stage, one.chunk) if chunks else (one.stage,)
    numbers = (one.clocks, one.lowest_mhz, one.highest_mhz, one.peers, len(one.missing))
    return (*map(str, place), str(one.op), *map(str, numbers))
