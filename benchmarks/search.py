"""How much of the true fronts a search finds, beside random choice, in spaces that the simulation can exhaust.

All partitions of llama-3.2-3b with tensor degree 8. The budget is a tenth of all points, sequential execution at
every clock among them; the search spends it on all partitions together, and random choice gets in each partition as
many points as the search had there. The reference point of a hypervolume is the worst of the space.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from benchmarks.registry import SHORT, Benchmark, Settings
from energyopt.planner.tables import Table
from energyopt.profiler.benches.simulated import open_simulated_bench
from energyopt.profiler.clocks import choose_clocks
from energyopt.profiler.overlapped import overlapped
from energyopt.profiler.search.budgeting import points_a_turn, points_allowed
from energyopt.profiler.search.engine import Proposal, Search
from energyopt.profiler.search.front import hypervolume, planes
from energyopt.profiler.search.space import Cost, Space
from energyopt.profiler.search.spaces_of import searched_partitions
from energyopt.profiler.search.stopping import Patience
from energyopt.profiler.workloads.open import load_workload

ASKED = 0.99
SEEDS = 20
GPU = "a100-sxm4-80gb"
JOB = {"tensor_parallel": 8, "stages": 2, "microbatch_size": 8, "sequence_length": 4096}
TEMPERATURE_C = 55.0
TIME_NOISE, ENERGY_NOISE = (
    0.0015,
    0.003,
)  # relative, of the mean of five windows as `profile` takes them there
COLUMNS = (
    "partition",
    "points",
    "measured",
    "search: time, dynamic",
    "time, total",
    "random: time, dynamic",
    "time, total",
    "sequential + random: time, dynamic",
    "time, total",
    "verdict",
)

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """A partition's space with the true time and energy of each point."""

    space: Space
    costs: Array  # N x 2
    wait_power_w: float

    def shares(self, points: list[int]) -> Array:
        """The share of both true hypervolumes that these points have."""
        found = []
        for values in planes(self.costs[:, 0], self.costs[:, 1], self.wait_power_w):
            worst = values.max(axis=0)
            found.append(hypervolume(values[points], worst) / hypervolume(values, worst))
        return np.array(found)


def run(settings: Settings) -> Table:
    spaces = list(exhausted(("1410", "900")))[:1] if settings.smoke else list(exhausted())
    seeds = settings.runs or (1 if settings.smoke else SEEDS)
    began_s, points = time.perf_counter(), 0
    found: list[list[list[int]]] = []
    for seed in range(seeds):
        found.append(searched(spaces, seed))
        points += sum(len(one) for one in found[-1])
    spent_s = (time.perf_counter() - began_s) / points
    rows = [_row(one, [each[index] for each in found]) for index, one in enumerate(spaces)]
    whole = sum(len(one.space) for one in spaces)
    title = (
        f"llama-3.2-3b, tensor 8, simulated {GPU}: shares of the true hypervolume, medians of {seeds} seeds; "
        f"{points / seeds / whole:.1%} of {whole} points, {spent_s:.2f} s for each"
    )
    return Table(title=title, columns=COLUMNS, rows=tuple(rows))


def exhausted(clocks: tuple[str, ...] = ()) -> Iterator[Exhausted]:
    """All partitions, at these clocks or the usual 18."""
    bench = open_simulated_bench(GPU, noise=False)
    chosen = choose_clocks(",".join(clocks) or None, bench.device.supported_sm_clocks_mhz()).chosen_mhz
    workload = overlapped("llama-3.2-3b", load_workload("llama-3.2-3b", JOB), None)
    kernels = {one.name: one for one in workload.kernels()}

    def time_of(name: str, clock: int) -> float:
        return bench.true_cost(kernels[name], clock, TEMPERATURE_C)[0]

    wait_w = bench.true_wait_power_w(chosen[0], TEMPERATURE_C)
    for one in searched_partitions(workload, chosen, time_of):
        costs = [
            bench.true_cost(kernel, clock, TEMPERATURE_C)
            for kernel in one.kernels
            if kernel is not None
            for clock in chosen
        ]
        yield Exhausted(space=one.space, costs=np.array(costs), wait_power_w=wait_w)


def searched(spaces: list[Exhausted], seed: int) -> list[list[int]]:
    """The points that a search with this seed measures of each partition."""
    generator = np.random.default_rng([seed, 1])
    engine = Search([one.space for one in spaces], spaces[0].wait_power_w, seed)
    allowed = points_allowed(engine.spaces, None)
    chosen: list[list[int]] = [[] for _ in spaces]
    patience, turn, proposals = Patience(), 0, engine.first()
    while proposals:
        for one in proposals:
            chosen[one.space].append(one.point)
            engine.observe(one.space, one.point, _measured(spaces, one, generator))
        turn += 1
        count = min(allowed - engine.measured, points_a_turn(len(spaces)))
        proposals = [] if patience.over else engine.propose(turn, count)
        if proposals:
            patience.hear(engine.best_gain)
    return chosen


def _measured(spaces: list[Exhausted], proposal: Proposal, generator: np.random.Generator) -> Cost:
    time_s, energy_j = spaces[proposal.space].costs[proposal.point]
    noise = generator.standard_normal(2)
    return Cost(time_s * (1 + TIME_NOISE * noise[0]), energy_j * (1 + ENERGY_NOISE * noise[1]))


def _row(one: Exhausted, chosen: list[list[int]]) -> tuple[str, ...]:
    generator = np.random.default_rng(0)
    own = np.median([one.shares(points) for points in chosen], axis=0)
    random = np.median([one.shares(_random(one, len(points), generator)) for points in chosen], axis=0)
    first = list(one.space.sequential)
    beside = np.median(
        [
            one.shares(first + _random(one, len(points) - len(first), generator, len(first)))
            for points in chosen
        ],
        axis=0,
    )
    ok = own.min() >= ASKED and own[0] > max(random[0], beside[0])
    return (
        one.space.name,
        str(len(one.space)),
        f"{median(map(len, chosen)):g}",
        *(f"{share:.2%}" for share in (*own, *random, *beside)),
        "ok" if ok else SHORT,
    )


def _random(one: Exhausted, count: int, generator: np.random.Generator, begin: int = 0) -> list[int]:
    """So many different points, from a number on."""
    return [int(point) for point in generator.choice(range(begin, len(one.space)), count, replace=False)]


BENCHMARK = Benchmark(
    name="search",
    shows="a search finds 99 % of the true fronts with a tenth of the points, and random choice does not",
    run=run,
    by_default=False,
)
