"""How often which partition follows which, so that clocks that differ between them can be charged.

An operation runs its partitions in a given order. Those that stand next to each other and are come to equally often
form a block, which is run through that often: the last partition of a layer is followed by the first of the next.
Others (an embedding, a loss) stand before or after a block and are passed once. The operation is a ring: from its
last partition the clock goes back to that of the first, so that it starts and ends at one clock whatever comes
before and after it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from energyopt.planner.composition.rows import Choices
from energyopt.schemas.errors import ProfileError

_ANY_ORDER = 3  # so few in a ring have the same neighbours in whatever order


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """The order of partitions and the steps between them.

    order: indices of the partitions in execution order. steps: by two partitions, the lower index first, how often
        one of them follows the other in one run of the operation.
    """

    order: tuple[int, ...]
    steps: Mapping[tuple[int, int], int]


def ring_of(choices: Sequence[Choices], names: Sequence[str] | None, what: str) -> Ring:
    """The ring that partitions form.

    names: of partitions in execution order, perhaps of more than these; None where nobody said: up to three that
        are come to equally often need no order.

    Raises:
        ProfileError: the order matters and is not known.
    """
    own = {one.partition: index for index, one in enumerate(choices)}
    if names is None and len(own) <= _ANY_ORDER and len({one.passes for one in choices}) == 1:
        names = list(own)
    missing = sorted(own.keys() - set(names or ()))
    if names is None or missing:
        lacking = f" ({missing[0]} has no place in it)" if names else ""
        raise ProfileError(
            f"the profile does not say in which order the {len(own)} partitions of the {what} run{lacking}, which "
            "decides how often their clocks change; profile again, or leave out --mixed-clocks"
        )
    order = [own[name] for name in names if name in own]
    return Ring(order=tuple(order), steps=_steps(order, [one.passes for one in choices]))


def _steps(order: Sequence[int], passes: Sequence[int]) -> dict[tuple[int, int], int]:
    blocks = [list(members) for _, members in groupby(order, key=lambda one: passes[one])]
    found: Counter[tuple[int, int]] = Counter()
    for block, following in zip(blocks, [*blocks[1:], blocks[0]], strict=True):
        times = passes[block[0]]
        for one, other in pairwise(block):
            found[min(one, other), max(one, other)] += times
        for one, other, often in ((block[-1], block[0], times - 1), (block[-1], following[0], 1)):
            found[min(one, other), max(one, other)] += often
    return {pair: times for pair, times in sorted(found.items()) if pair[0] != pair[1] and times}
