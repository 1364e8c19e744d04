"""`energyopt merge`: the shards of several ranks as one file."""

from pathlib import Path
from typing import Annotated

import typer

from energyopt.cli import output
from energyopt.cli.targets import refuse_overwrite


def register(app: typer.Typer) -> None:
    """Add the command `merge`."""
    app.command("merge")(merge)


def merge(
    shards: Annotated[list[Path], typer.Argument(metavar="SHARD...", help="Profiles of single ranks.")],
    destination: Annotated[Path, typer.Option("-o", "--output", help="Profile to write.")],
) -> int:
    """Join the profiles of several ranks: a stage takes as long as its slowest rank, for which the others wait."""
    from energyopt.profiler.distributed.merging import merge as merge_profiles
    from energyopt.schemas.profile import read_profile, write_profile

    refuse_overwrite(destination, *shards)
    merged = merge_profiles([read_profile(one) for one in shards], [str(one) for one in shards])
    for warning in merged.warnings:
        output.warn(warning)
    write_profile(destination, merged.profile)
    invalid = sum(row.invalid is not None for row in merged.profile.rows)
    output.say(
        f"wrote {destination}: {len(merged.profile.rows)} rows of {len(shards)} ranks, {invalid} invalid"
    )
    return 0
