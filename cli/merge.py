"""`energyopt merge`: the shards of several ranks as one file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from energyopt.cli import output
from energyopt.cli.targets import refuse_overwrite
from energyopt.schemas.errors import RequestError


def register(app: typer.Typer) -> None:
    """Add the command `merge`."""
    app.command("merge")(merge)


def merge(
    shards: Annotated[
        list[Path],
        typer.Argument(
            metavar="SHARD...", help="Profiles of single ranks, or telemetry shards or the folder of a run."
        ),
    ],
    destination: Annotated[Path, typer.Option("-o", "--output", help="File to write.")],
) -> int:
    """Join what several ranks wrote: profiles into a profile, telemetry into telemetry.parquet.

    In a profile, a stage takes as long as its slowest rank, for which the others wait.
    """
    from energyopt.planner.telemetry.merging import find_shards
    from energyopt.planner.telemetry.shards import is_shard

    found = find_shards(shards)
    refuse_overwrite(destination, *found)
    of_training = [is_shard(path) for path in found]
    if any(of_training) and not all(of_training):
        other = found[of_training.index(False)]
        raise RequestError(f"{other} is no telemetry shard, but {found[of_training.index(True)]} is one")
    if all(of_training):
        _merge_telemetry(found, destination)
    else:
        _merge_profiles(found, destination)
    return 0


def _merge_telemetry(shards: Sequence[Path], destination: Path) -> None:
    from energyopt.planner.telemetry.merging import merge_shards
    from energyopt.schemas.telemetry import write_telemetry

    merged = merge_shards(shards)
    for warning in merged.warnings:
        output.warn(warning)
    write_telemetry(destination, merged.telemetry)
    gpus = merged.telemetry.metadata.gpus
    iterations = merged.telemetry.iterations.num_rows // max(len(gpus), 1)
    output.say(f"wrote {destination}: {iterations} iterations of {len(gpus)} ranks")


def _merge_profiles(shards: Sequence[Path], destination: Path) -> None:
    from energyopt.profiler.distributed.merging import merge as merge_profiles
    from energyopt.schemas.profile import read_profile, write_profile

    merged = merge_profiles([read_profile(one) for one in shards], [str(one) for one in shards])
    for warning in merged.warnings:
        output.warn(warning)
    write_profile(destination, merged.profile)
    invalid = sum(row.invalid is not None for row in merged.profile.rows)
    output.say(
        f"wrote {destination}: {len(merged.profile.rows)} rows of {len(shards)} ranks, {invalid} invalid"
    )
