"""What the commands of `energyopt import` share: option types, and the table of what was covered."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from energyopt.cli import output

if TYPE_CHECKING:
    from energyopt.schemas.profile import Profile

Output = Annotated[Path, typer.Option("-o", "--output", help="File to write.")]
WaitPower = Annotated[
    float, typer.Option("--wait-power-w", help="Power of one GPU that is blocked on a peer, W.")
]
PowerLimit = Annotated[
    float | None,
    typer.Option("--power-limit-w", help="Power limit of the board, W; bounds the mean power."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the coverage as JSON.")]


class Imported(Protocol):
    """A profile that was read, with what it covers and what was odd about it."""

    @property
    def profile(self) -> "Profile":
        """The profile."""

    @property
    def coverage(self) -> Sequence[Any]:
        """Dataclasses, each with what is `missing`."""

    @property
    def warnings(self) -> Sequence[str]:
        """One line each."""


def print_coverage(
    imported: Imported, columns: Sequence[str], rows: Sequence[Sequence[str]], *, as_json: bool
) -> None:
    """Print what an import covers, as a table or as JSON."""
    from energyopt.schemas.files import canonical_json

    if not as_json:
        output.table(columns, rows, "coverage")
        return
    profile = imported.profile
    found = {
        "profile_sha256": profile.sha256(),
        "rows": len(profile.rows),
        "gpus_per_stage": profile.metadata.gpus_per_stage,
        "coverage": [asdict(one) | {"missing": list(one.missing)} for one in imported.coverage],
        "warnings": list(imported.warnings),
    }
    output.data(canonical_json(found))
