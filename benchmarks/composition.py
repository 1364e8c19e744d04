"""Fronts of operations made of partitions: sums pruned after every addition, beside the product of all choices.

Cases are an operation's partitions at every clock: configurations at random, of which few are on a partition's
front, and convex ones, of which all are, the worst there is for the sum. The product loop adds up every combination
and prunes once at the end; it is run on as many partitions as let it finish in about a minute, and has to find the
same front.
"""

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.registry import SHORT, Benchmark, Settings
from energyopt.planner.composition.minkowski import Part, minkowski_front, pareto_indices
from energyopt.planner.tables import Table

ASKED_S = 2.0
SEED = 5
COLUMNS = (
    "configurations", "partitions", "each", "clocks", "combinations", "how", "s", "points of all clocks",
    "of their union", "ratio", "verdict",
)  # fmt: skip

Clock = Sequence[Part]
Fronts = list[tuple["np.ndarray", "np.ndarray"]]  # times and energies by clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many partitions, configurations of each, and clocks."""

    partitions: int
    configurations: int
    clocks: int

    @property
    def combinations(self) -> int:
        """Ways to pick a clock and a configuration of each partition."""
        return self.clocks * self.configurations**self.partitions


FULL = Size(partitions=12, configurations=20, clocks=18)
LOOPED = Size(partitions=5, configurations=20, clocks=18)
TINY = Size(partitions=3, configurations=4, clocks=2)


def run(settings: Settings) -> Table:
    full, looped = (TINY, TINY) if settings.smoke else (FULL, LOOPED)
    rows = []
    for kind, make in (("at random", _random), ("convex", _convex)):
        rows.append(_asked(kind, make(full), full))
        rows += _beside_the_loop(kind, make(looped), looped)
    title = f"exact fronts in time and energy; asked: {ASKED_S:g} s for {_words(FULL)}"
    return Table(title=title, columns=COLUMNS, rows=tuple(rows))


def _asked(kind: str, clocks: list[Clock], size: Size) -> tuple[str, ...]:
    took_s, fronts = _timed(_pruned, clocks)
    verdict = "ok" if took_s <= ASKED_S else f"{SHORT}: time"
    return (*_head(kind, size), *_cells("pruned sums", took_s, fronts), "", verdict)


def _beside_the_loop(kind: str, clocks: list[Clock], size: Size) -> list[tuple[str, ...]]:
    loop_s, expected = _timed(_product, clocks)
    took_s, fronts = _timed(_pruned, clocks)
    same = all(
        np.array_equal(one, other)
        for front, reference in zip(fronts, expected, strict=True)
        for one, other in zip(front, reference, strict=True)
    )
    return [
        (*_head(kind, size), *_cells("product loop", loop_s, expected), "", ""),
        (
            *_head(kind, size),
            *_cells("pruned sums", took_s, fronts),
            f"{loop_s / took_s:.0f}",
            "the same front" if same else f"{SHORT}: another front",
        ),
    ]


def _pruned(parts: Clock) -> tuple[np.ndarray, np.ndarray]:
    front = minkowski_front(parts)
    return front.time_s, front.energy_j


def _product(parts: Clock) -> tuple[np.ndarray, np.ndarray]:
    """Every combination, by loops inside loops; what was added up further out is not added up again."""
    times_s, energies_j = array("d"), array("d")
    choices = [list(zip(part.time_s.tolist(), part.energy_j.tolist(), strict=True)) for part in parts]

    def loop(depth: int, time_s: float, energy_j: float) -> None:
        if depth == len(choices) - 1:
            for one_s, one_j in choices[depth]:
                times_s.append(time_s + one_s)
                energies_j.append(energy_j + one_j)
            return
        for one_s, one_j in choices[depth]:
            loop(depth + 1, time_s + one_s, energy_j + one_j)

    loop(0, 0.0, 0.0)
    time_s, energy_j = np.array(times_s), np.array(energies_j)
    kept = pareto_indices(time_s, energy_j)
    return time_s[kept], energy_j[kept]


def _timed(
    of_clock: Callable[[Clock], tuple[np.ndarray, np.ndarray]], clocks: list[Clock]
) -> tuple[float, Fronts]:
    """The fronts of all clocks, and the time that they and their union take."""
    began_s = time.perf_counter()
    fronts = [of_clock(parts) for parts in clocks]
    _union(fronts)
    return time.perf_counter() - began_s, fronts


def _union(fronts: Fronts) -> int:
    """How many points the front over all clocks has."""
    times_s = np.concatenate([time_s for time_s, _ in fronts])
    return len(pareto_indices(times_s, np.concatenate([energy_j for _, energy_j in fronts])))


def _random(size: Size) -> list[Clock]:
    rng = np.random.default_rng(SEED)

    def part(base: float, slower: float) -> Part:
        spread = rng.uniform(0, 1, (2, size.configurations))
        return Part(
            time_s=base * slower * (1 + 0.2 * spread[0]),
            energy_j=100 * base * slower**-1.5 * (1 + 0.1 * spread[1]),
        )

    return _clocks(size, rng, part)


def _convex(size: Size) -> list[Clock]:
    """Every configuration lies on the lower hull of its partition: the sums are all different and few fall out."""
    rng = np.random.default_rng(SEED)

    def part(base: float, slower: float) -> Part:
        share = np.sort(rng.uniform(0, 1, size.configurations))
        return Part(
            time_s=base * slower * (1 + 0.2 * share),
            energy_j=100 * base * slower**-1.5 * (1 + 0.1 * (1 - share) ** 2),
        )

    return _clocks(size, rng, part)


def _clocks(size: Size, rng: np.random.Generator, part: Callable[[float, float], Part]) -> list[Clock]:
    """Partitions of half a second to two seconds at the highest clock, and up to 1.67 times that at the lowest."""
    bases = rng.uniform(0.5, 2.0, size.partitions).tolist()
    slower = 1 / np.linspace(1.0, 0.6, size.clocks)
    return [[part(base, factor) for base in bases] for factor in slower.tolist()]


def _head(kind: str, size: Size) -> tuple[str, ...]:
    numbers = str(size.partitions), str(size.configurations), str(size.clocks)
    return kind, *numbers, f"{size.combinations:.2g}"


def _cells(how: str, took_s: float, fronts: Fronts) -> tuple[str, ...]:
    return how, f"{took_s:.2f}", str(sum(len(time_s) for time_s, _ in fronts)), str(_union(fronts))


def _words(size: Size) -> str:
    return f"{size.partitions} partitions x {size.configurations} configurations x {size.clocks} clocks"


BENCHMARK = Benchmark(
    name="composition",
    shows="exact fronts of operations made of partitions, beside the product of all choices",
    run=run,
)
