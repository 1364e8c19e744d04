"""Whether a grid is complete: every chunk of every stage, every instruction of it, at every clock, on every GPU."""

from collections.abc import Iterable, Mapping

from energyopt.profiler.importers.interface import Coverage
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey, OpKind

Peer = tuple[int, ...]
Point = tuple[OpKey, int]  # what was measured, and its SM clock in MHz

_SHOWN = 5
_NOT_OF_EVERY_CHUNK = {OpKind.FORWARD_BACKWARD, OpKind.OPTIMIZER, OpKind.GRAD_SYNC}


def stage_peers(points: Mapping[Point, Mapping[Peer, object]]) -> dict[int, set[Peer]]:
    """The GPUs that each stage was measured on, anywhere."""
    found: dict[int, set[Peer]] = {}
    for (key, _), peers in points.items():
        found.setdefault(key.stage, set()).update(peers)
    return found


def check_shape(file: str, points: Mapping[Point, Mapping[Peer, object]]) -> None:
    """Refuse what no pipeline can be planned from, however lenient one is.

    Raises:
        ProfileError: a stage or chunk is missing between others, or chunks differ in instructions or stages in
            number of GPUs.
    """
    peers = stage_peers(points)
    hole = next(stage for stage in range(len(peers) + 1) if stage not in peers)
    if hole < len(peers):
        raise ProfileError(
            f"{file}: stages must be 0, 1, 2, ... without holes; found {len(peers)} up to {max(peers)}, "
            f"and stage {hole} is missing"
        )
    _check_chunks(file, points)
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
    """How much of the full grid is there, per stage, chunk and instruction, in that order."""
    clocks: dict[OpKey, set[int]] = {}
    for key, clock in points:
        clocks.setdefault(key, set()).add(clock)
    everywhere = set().union(*clocks.values())
    peers = stage_peers(points)
    return tuple(
        Coverage(
            stage=key.stage,
            chunk=key.chunk,
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
    if chunks := _missing_chunks(covered):
        return f"nothing was measured of {'; '.join(chunks[:_SHOWN])}, which other stages have"
    if not missing:
        return None
    shown = "; ".join(missing[:_SHOWN])
    more = f"; and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    holed = sum(1 for one in covered if one.missing)
    count = f"{len(missing)} measurements are missing in {holed} of {len(covered)} instructions"
    return f"{count}: {shown}{more}"


def describe_peer(peer: Peer, rank_columns: tuple[str, ...]) -> str:
    """One GPU of a stage in words, such as `tp_rank 1 dp_rank 0`."""
    return " ".join(f"{name} {value}" for name, value in zip(rank_columns, peer, strict=True))


def _chunks(keys: Iterable[tuple[int, int]]) -> dict[int, set[int]]:
    """The chunks of each stage, from pairs (stage, chunk)."""
    found: dict[int, set[int]] = {}
    for stage, chunk in keys:
        found.setdefault(stage, set()).add(chunk)
    return found


def _missing_chunks(covered: tuple[Coverage, ...]) -> list[str]:
    chunks = _chunks((one.stage, one.chunk) for one in covered)
    every = set().union(*chunks.values())
    return [
        f"chunk {chunk} of stage {stage}"
        for stage in sorted(chunks)
        for chunk in sorted(every - chunks[stage])
    ]


def _check_chunks(file: str, points: Mapping[Point, object]) -> None:
    for stage, own in sorted(_chunks((key.stage, key.chunk) for key, _ in points).items()):
        hole = next(chunk for chunk in range(len(own) + 1) if chunk not in own)
        if hole < len(own):
            raise ProfileError(
                f"{file}: chunks of a stage must be 0, 1, 2, ... without holes; stage {stage} has "
                f"{', '.join(map(str, sorted(own)))}, and chunk {hole} is missing"
            )


def _check_instructions(file: str, points: Mapping[Point, object]) -> None:
    """Stages must have the same instructions, and so must the chunks but for those that not every chunk runs."""
    of_stage: dict[tuple[int, ...], set[str]] = {}
    of_chunk: dict[tuple[int, ...], set[str]] = {}
    for key, _ in points:
        of_stage.setdefault((key.stage,), set()).add(key.kind)
        of_chunk.setdefault((key.stage, key.chunk), set()).update({key.kind} - _NOT_OF_EVERY_CHUNK)
    for kinds in (of_stage, of_chunk):
        every = set().union(*kinds.values())
        for place, own in sorted(kinds.items()):
            if lacking := sorted(every - own):
                where = f"stage {place[0]}" + "".join(f", chunk {chunk}," for chunk in place[1:] if chunk)
                others = "stages" if kinds is of_stage else "stages or chunks"
                raise ProfileError(
                    f"{file}: {where} has no {', '.join(lacking)}, which other {others} have; "
                    "every one needs the same instructions"
                )
