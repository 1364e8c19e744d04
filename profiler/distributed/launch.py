"""Whether a launcher such as torchrun started this process as one of several."""

from collections.abc import Mapping
from dataclasses import dataclass

from energyopt.schemas.errors import RequestError

_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """This process's place among all, and on its node.

    cuda_number: CUDA's number of its GPU: the local rank, or 0 where the launcher lets it see one GPU alone.
    """

    rank: int
    size: int
    local_rank: int
    cuda_number: int


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
    alone = len([one for one in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one.strip()]) == 1
    return Launch(rank=rank, size=size, local_rank=local_rank, cuda_number=0 if alone else local_rank)
