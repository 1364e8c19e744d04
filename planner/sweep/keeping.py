"""A folder that keeps each layout's frontier, so that a stopped sweep goes on where it was, and a plan can be made.

A file's name ends in a digest of everything that decides the frontier: what another profile, another wish or
another version of the tool leads to has another name, and is planned anew.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from energyopt import __version__
from energyopt.planner.sweep.wishes import Wishes
from energyopt.schemas.errors import EnergyoptError
from energyopt.schemas.files import check_target, compact_json
from energyopt.schemas.frontier import Frontier, read_frontier, write_frontier
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.profile import Profile, write_profile
from energyopt.schemas.sweep import Layout

_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """Keeps frontiers, and the profiles that were derived for their layouts, in a folder that is there."""

    folder: Path

    def check(self) -> None:
        """Refuse a folder that cannot be written before anything is planned.

        Raises:
            EnergyoptError: it is not there, or is read-only.
        """
        check_target(self.folder / "frontier.parquet")

    def kept(self, name: str) -> Frontier | None:
        """The frontier of this name; None where there is none that can be read."""
        try:
            return read_frontier(self.folder / name) if (self.folder / name).exists() else None
        except EnergyoptError:  # of an earlier disk that was full, say: it is planned and written again
            return None

    def keep(self, name: str, frontier: Frontier) -> None:
        """Write a frontier atomically."""
        write_frontier(self.folder / name, frontier)

    def keep_profile(self, layout: Layout, sha256: str, make: Callable[[], Profile]) -> None:
        """Write the profile that a layout's plans rest on, which `verify` and `calibrate` ask for, once.

        sha256: its digest; make: gives it, where it is not there yet.
        """
        chunks = f"x{layout.chunks_per_stage}" if layout.chunks_per_stage > 1 else ""
        stem = re.sub(r"[^\w.-]+", "_", Path(layout.profile).stem)
        path = self.folder / f"{stem}-pp{layout.stages}{chunks}-{sha256[:_DIGITS]}.profile.parquet"
        if not path.exists():
            write_profile(path, make())


def frontier_name(layout: Layout, pipeline: Pipeline, profile_sha256: str, wishes: Wishes) -> str:
    """The name of a layout's frontier file.

    profile_sha256: of the profile that the layout's is derived from.
    """
    told = [__version__, profile_sha256, pipeline.to_json(), asdict(layout) | {"profile": ""}, asdict(wishes)]
    digest = hashlib.sha256(compact_json(told).encode()).hexdigest()[:_DIGITS]
    return f"{re.sub(r'[^a-z0-9.]+', '-', layout.name)}-{digest}.frontier.parquet"
