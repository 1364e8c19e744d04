"""Whether a launcher such as torchrun started this process as one of several."""

from collections.abc import Mapping
from dataclasses import dataclass

from energyopt.schemas.errors import RequestError

_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """This process's place among all, and on its node."""

    rank: int
    size: int
    local_rank: int


def find_launch(environ: Mapping[str, str]) -> Launch | None:
    """The launch that the environment describes, or None for a process on its own.

    Raises:
        RequestError: only some of the variables are there, or they cannot be.
    """
    given = [name for name in _NAMES if environ.get(name)]
    if not given:
        return None
    if len(given) < len(_NAMES):
        missing = ", ".join(name for name in _NAMES if name not in given)
        raise RequestError(
            f"{given[0]} is set and {missing} is not: start all ranks with torchrun, or unset it"
        )
    try:
        rank, size, local_rank = (int(environ[name]) for name in _NAMES)
    except ValueError:
        raise RequestError(
            f"RANK, WORLD_SIZE and LOCAL_RANK must be numbers, not {[environ[name] for name in _NAMES]}"
        ) from None
    if not 0 <= rank < size or local_rank < 0:
        raise RequestError(f"rank {rank} of {size} cannot be")
    return Launch(rank=rank, size=size, local_rank=local_rank)
