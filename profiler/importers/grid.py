"""Whether a grid is complete: every stage, every instruction of it, at every clock, on every GPU."""

from collections.abc import Mapping

from energyopt.profiler.importers.interface import Coverage
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey

Peer = tuple[int, ...]
Point = tuple[OpKey, int]  # what was measured, and its SM clock in MHz

_SHOWN = 5


def stage_peers(points: Mapping[Point, Mapping[Peer, object]]) -> dict[int, set[Peer]]:
    """The GPUs that each stage was measured on, anywhere."""
    found: dict[int, set[Peer]] = {}
    for (key, _), peers in points.items():
        found.setdefault(key.stage, set()).update(peers)
    return found


def check_shape(file: str, points: Mapping[Point, Mapping[Peer, object]]) -> None:
    """Refuse what no pipeline can be planned from, however lenient one is.

    Raises:
        ProfileError: a stage is missing between others, stages differ in instructions or in number of GPUs.
    """
    peers = stage_peers(points)
    hole = next(stage for stage in range(len(peers) + 1) if stage not in peers)
    if hole < len(peers):
        raise ProfileError(
            f"{file}: stages must be 0, 1, 2, ... without holes; found {len(peers)} up to {max(peers)}, "
            f"and stage {hole} is missing"
        )
    _check_instructions(file, points)
    for stage in sorted(peers):
        if len(peers[stage]) != len(peers[0]):
            raise ProfileError(
                f"{file}: stage {stage} has {len(peers[stage])} GPUs and stage 0 has {len(peers[0])}; "
                "totals need the same number for every stage"
            )


def coverage(
    points: Mapping[Point, Mapping[Peer, object]], rank_columns: tuple[str, ...]
) -> tuple[Coverage, ...]:
    """How much of the full grid is there, per stage and instruction, in that order."""
    clocks: dict[OpKey, set[int]] = {}
    for key, clock in points:
        clocks.setdefault(key, set()).add(clock)
    everywhere = set().union(*clocks.values())
    peers = stage_peers(points)
    return tuple(
        Coverage(
            stage=key.stage,
            op=key.kind,
            clocks=len(own),
            lowest_mhz=min(own),
            highest_mhz=max(own),
            peers=len(peers[key.stage]),
            missing_clocks_mhz=tuple(sorted(everywhere - own)),
            missing_peers=tuple(
                f"{clock} MHz on {describe_peer(peer, rank_columns)}"
                for clock in sorted(own)
                for peer in sorted(peers[key.stage] - set(points[key, clock]))
            ),
        )
        for key, own in sorted(clocks.items())
    )


def incomplete(covered: tuple[Coverage, ...]) -> str | None:
    """Which measurements are absent, and how many; None where the grid is full."""
    missing = [text for one in covered for text in one.missing]
    if not missing:
        return None
    shown = "; ".join(missing[:_SHOWN])
    more = f"; and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    holed = sum(1 for one in covered if one.missing)
    count = f"{len(missing)} measurements are missing in {holed} of {len(covered)} (stage, instruction) pairs"
    return f"{count}: {shown}{more}"


def describe_peer(peer: Peer, rank_columns: tuple[str, ...]) -> str:
    """One GPU of a stage in words, such as `tp_rank 1 dp_rank 0`."""
    return " ".join(f"{name} {value}" for name, value in zip(rank_columns, peer, strict=True))


def _check_instructions(file: str, points: Mapping[Point, object]) -> None:
    kinds: dict[int, set[str]] = {}
    for key, _ in points:
        kinds.setdefault(key.stage, set()).add(key.kind)
    every = set().union(*kinds.values())
    for stage, own in sorted(kinds.items()):
        if lacking := sorted(every - own):
            raise ProfileError(
                f"{file}: stage {stage} has no {', '.join(lacking)}, which other stages have; "
                "every stage needs the same instructions"
            )
