"""`energyopt import kareus` and `kareus-plan`: what the Kareus artifact measured and planned."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from energyopt.cli import output
from energyopt.cli.import_options import Json, Output, PowerLimit, WaitPower, print_coverage
from energyopt.cli.targets import refuse_overwrite
from energyopt.profiler.importers.provenance import WORKLOAD_KEYS, check_device_name, parse_workload
from energyopt.schemas.errors import RequestError

if TYPE_CHECKING:
    from energyopt.profiler.importers.kareus.coverage import PartitionCoverage
    from energyopt.profiler.importers.kareus.reading import KareusImport

_Gpu = Annotated[str, typer.Option("--gpu", help="Name of the GPU that it was measured on or planned for.")]
_Degree = Annotated[int, typer.Option(min=1, help="Of the job, which the files do not say.")]

_Sms = Annotated[
    int | None, typer.Option(min=1, help="SMs of the GPU, where its name does not say or says it wrongly.")
]


def register(group: typer.Typer) -> None:
    """Add the commands to the group `import`."""
    group.command("kareus")(kareus)
    group.command("kareus-plan")(kareus_plan)


def kareus(
    source: Annotated[
        Path, typer.Argument(metavar="SRC", help="Folder of one job, such as cp1-tp8-bs8-seq4096.")
    ],
    destination: Output,
    gpu: _Gpu,
    wait_power_w: WaitPower,
    layers_per_stage: Annotated[
        str, typer.Option(metavar="N,N,...", help="Layers of the model on each pipeline stage.")
    ],
    *,
    recompute: Annotated[
        bool,
        typer.Option(
            "--recompute/--no-recompute",
            help="Whether a backward runs the forward's partitions again first.",
        ),
    ] = True,
    power_limit_w: PowerLimit = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload",
            metavar="KEY=VALUE",
            help=f"What was measured, if not as SRC is named: {', '.join(WORKLOAD_KEYS)}. Repeatable.",
        ),
    ] = None,
    window_end: Annotated[
        list[str] | None,
        typer.Option(
            "--window-end",
            metavar="PARTITION=END",
            help="Which windows to take where a partition has several ends. Repeatable.",
        ),
    ] = None,
    block: Annotated[
        int | None, typer.Option(min=1, help="Which block size to take where a partition has several.")
    ] = None,
    sms: _Sms = None,
    keep_first: Annotated[
        bool, typer.Option("--keep-first", help="Keep the first of repeated measurements.")
    ] = False,
    allow_incomplete: Annotated[
        bool, typer.Option("--allow-incomplete", help="Warn about missing clocks instead of refusing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Read what the Kareus artifact measured of one job.

    SRC has a folder with eval_results.jsonl for each partition, and one named nonpartition with CSV files
    for each clock. Model, degrees, microbatch size and sequence length come from SRC's name and its
    parent's.
    """
    from energyopt.profiler.importers.kareus.reading import read_kareus
    from energyopt.schemas.profile import write_profile

    refuse_overwrite(destination, source, *source.glob("*/*.jsonl"), *source.glob("*/*/*.csv"))
    imported = read_kareus(
        source,
        device_name=gpu,
        wait_power_w=wait_power_w,
        layers_per_stage=_layers(layers_per_stage),
        recompute=recompute,
        power_limit_w=power_limit_w,
        workload=parse_workload(workload or []),
        window_ends=window_end or [],
        block=block,
        keep_first=keep_first,
        strict=not allow_incomplete,
        sms=sms,
    )
    write_profile(destination, imported.profile)
    for warning in imported.warnings:
        output.warn(warning)
    _print_coverage(imported, as_json=as_json)
    found = imported.profile
    output.say(
        f"wrote {destination}: {len(found.rows)} rows, {found.metadata.gpus_per_stage} GPU(s) per stage, "
        f"{'with' if recompute else 'without'} recomputation"
    )


def kareus_plan(
    freqs: Annotated[Path, typer.Argument(metavar="FREQS", help="List of clocks, freqs_*.py.")],
    destination: Output,
    gpu: _Gpu,
    scheds: Annotated[
        Path | None,
        typer.Argument(metavar="SCHEDS", help="List of settings; the scheds_*.py beside FREQS if not given."),
    ] = None,
    *,
    tensor_parallel: _Degree = 1,
    context_parallel: _Degree = 1,
    sms: _Sms = None,
) -> None:
    """Read a plan of Kareus, as data.

    It is a pair of lists, both with one list for each stage: (instruction, MHz), and how each partition
    communicates.
    """
    from energyopt.applier.kareus.files import scheds_beside
    from energyopt.applier.kareus.plans import plan_from_kareus
    from energyopt.schemas.plan import write_plan

    check_device_name(gpu)
    scheds = scheds_beside(freqs) if scheds is None else scheds
    refuse_overwrite(destination, freqs, scheds)
    found = plan_from_kareus(
        freqs,
        scheds,
        device_name=gpu,
        tensor_parallel=tensor_parallel,
        context_parallel=context_parallel,
        sms=sms,
    )
    write_plan(destination, found.plan)
    for note in found.notes:
        output.warn(note)
    job = found.plan.pipeline
    output.say(
        f"wrote {destination}: {job.stages} stages, {job.microbatches} microbatches, {job.schedule}, partitions "
        f"of a {found.layout.name} layer {'with' if found.recompute else 'without'} recomputation; it predicts "
        "neither time nor energy"
    )


def _layers(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[0-9]{1,6}(,[0-9]{1,6})*", text):
        raise RequestError(f"--layers-per-stage {text!a} is no list of whole numbers, such as 14,14")
    return tuple(int(one) for one in text.split(","))


def _print_coverage(imported: "KareusImport", *, as_json: bool) -> None:
    columns = ("partition", "kind", "clocks", "lowest MHz", "highest MHz", "configurations", "missing")
    rows = [_coverage_row(one) for one in imported.coverage]
    print_coverage(imported, columns, rows, as_json=as_json)


def _coverage_row(one: "PartitionCoverage") -> tuple[str, ...]:
    numbers = (one.clocks, one.lowest_mhz, one.highest_mhz, one.configurations, len(one.missing))
    return (one.partition, str(one.op), *map(str, numbers))
