"""What several ranks search: the partitions of all stages, the same list on every rank."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from energyopt.profiler.measurement.team import Team
from energyopt.profiler.search.space import Space
from energyopt.schemas.partitions import Execution, PartitionConfig


def common_spaces(team: Team, own: Iterable[Space]) -> tuple[Space, ...]:
    """Every partition that any rank has, as the first such rank knows it."""
    found: dict[str, Space] = {}
    for spaces in team.gather([_to_json(space) for space in own]):
        for value in spaces:
            found.setdefault(value["name"], _from_json(value))
    return tuple(found.values())


def _to_json(space: Space) -> dict[str, Any]:
    return {
        "name": space.name,
        "clocks_mhz": list(space.clocks_mhz),
        "configs": [asdict(one) for one in space.configs],
        "launch_at": dict(space.launch_at),
        "comm_share": list(space.comm_share),
    }


def _from_json(value: dict[str, Any]) -> Space:
    configs = (one | {"execution": Execution(one["execution"])} for one in value["configs"])
    return Space(
        name=value["name"],
        clocks_mhz=tuple(value["clocks_mhz"]),
        configs=tuple(PartitionConfig(**one) for one in configs),
        launch_at=value["launch_at"],
        comm_share=tuple(value["comm_share"]),
    )
