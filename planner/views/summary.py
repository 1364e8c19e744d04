"""Records as values that JSON can hold, in full."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from energyopt.schemas.notation import format_order

if TYPE_CHECKING:  # a plan can be shown without pyarrow
    from energyopt.schemas.frontier import Frontier
    from energyopt.schemas.profile import Profile


def profile_to_json(profile: "Profile") -> dict[str, Any]:
    """The profile's provenance, digest and rows."""
    return {
        "format": "energyopt-profile",
        "metadata": asdict(profile.metadata),
        "sha256": profile.sha256(),
        "rows": [asdict(row) for row in profile.rows],
    }


def frontier_to_json(frontier: "Frontier") -> dict[str, Any]:
    """What the points share, and the points; energies cover `gpus` GPUs, options one GPU."""
    schedule = frontier.schedule
    return {
        "format": "energyopt-frontier",
        "profile": {"sha256": frontier.profile_sha256},
        "device": {
            "name": frontier.device_name,
            "kind": frontier.device_kind,
            "scope": frontier.scope,
            "wait_power_w": frontier.wait_power_w,
        },
        "gpus": frontier.gpus,
        "pipeline": frontier.pipeline.to_json(),
        "schedule": {
            "name": schedule.name,
            "microbatches": schedule.microbatches,
            "virtual_stages": [list(chunks) for chunks in schedule.virtual_stages],
            "orders": [format_order(order, schedule.virtual_stages) for order in schedule.orders],
        },
        "options": [
            {
                "stage": key.stage,
                "chunk": key.chunk,
                "op": key.kind,
                "options": [asdict(one) for one in found],
            }
            for key, found in sorted(frontier.options.items())
        ],
        "baselines": {
            "max_clock": asdict(frontier.max_clock),
            "single_clocks": [asdict(one) for one in frontier.single_clocks],
        },
        "points": [asdict(point) for point in frontier.points],
    }
