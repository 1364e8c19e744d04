"""Records as values that JSON can hold, in full."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from energyopt.schemas.profile_metadata import metadata_to_json

if TYPE_CHECKING:  # a plan can be shown without pyarrow
    from energyopt.schemas.frontier import Frontier
    from energyopt.schemas.profile import Profile


def profile_to_json(profile: "Profile") -> dict[str, Any]:
    """The profile's provenance, digest and rows."""
    return {
        "format": "energyopt-profile",
        "metadata": metadata_to_json(profile.metadata),
        "sha256": profile.sha256(),
        "rows": [asdict(row) for row in profile.rows],
    }


def frontier_to_json(frontier: "Frontier") -> dict[str, Any]:
    """What the points share, and the points; energies cover `gpus` GPUs, options one GPU."""
    from energyopt.schemas.frontier import shared_to_json

    return shared_to_json(frontier) | {"points": [asdict(point) for point in frontier.points]}
