"""Partitions at clocks of their own: against every combination, run step by step."""

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from energyopt.planner.composition.compose import compose
from energyopt.planner.composition.minkowski import Part, minkowski_front, pareto_indices
from energyopt.planner.composition.mixed_clocks import Mixing, mixed_options
from energyopt.planner.composition.rows import Choices, Way
from energyopt.planner.composition.switching import SwitchCost
from energyopt.planner.hulls import lower_hull
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.options import Option
from energyopt.schemas.partitions import PLAIN, Execution, PartitionConfig

WAIT_W = 10.0
CLOCKS = (900, 1000, 1100)
ORDER = ("embedding", "norm", "attention", "mlp")  # not in order of name
LAYERS = 3
FREE = SwitchCost(time_s=0.0, energy_j=0.0)
CHEAP = SwitchCost(time_s=0.01, energy_j=0.3)
MIDDLING = SwitchCost(time_s=0.05, energy_j=0.5)  # at wait power
DEAR = SwitchCost(time_s=0.3, energy_j=1e4)
CONFIGS = (
    PLAIN,
    PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=4, comm_launch="rope"),
    PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=8, comm_launch="rope"),
)


class Outcome(NamedTuple):
    time_s: float
    effective_j: float


def _way(seed: int, configs: int = 2, names: tuple[str, ...] = ORDER) -> Way:
    """Partitions that draw more and take less at higher clocks, by amounts that differ between them."""
    rng = np.random.default_rng(seed)
    clocks: dict[int, tuple[Choices, ...]] = dict.fromkeys(CLOCKS, ())
    for name in sorted(names):
        size, passes = (0.2, 1) if name == "embedding" else (rng.uniform(0.5, 1.5), LAYERS)
        bound, hungry = rng.uniform(0, 1), rng.uniform(30, 90)
        for clock in CLOCKS:
            time_s = size * (1 - bound + bound * 1100 / clock) * rng.uniform(0.9, 1.1, configs)
            power_w = hungry * (clock / 1100) ** 2.5 * rng.uniform(0.9, 1.1, configs)
            one = Choices(
                partition=name,
                passes=passes,
                configs=CONFIGS[:configs],
                time_s=time_s,
                energy_j=time_s * power_w,
            )
            clocks[clock] = (*clocks[clock], one)
    return Way(nanobatches=2, clocks=clocks)


def _mixing(cost: SwitchCost, order: tuple[str, ...] | None = ORDER) -> Mixing:
    return Mixing(cost=cost, order=order, what="forward of stage 0")


def _one_clock(way: Way) -> tuple[Any, Any]:
    """Times and effective energies of every combination at one clock."""
    found = [one for one in _all(way, FREE) if len({clock for clock, _ in one[0].values()}) == 1]
    return np.array([one.time_s for _, one in found]), np.array([one.effective_j for _, one in found])


def _all(way: Way, cost: SwitchCost) -> list[tuple[dict[str, tuple[int, int]], Outcome]]:
    """Every clock and configuration of each partition, with what the operation costs, run through step by step."""
    names = [one.partition for one in way.clocks[CLOCKS[0]]]
    configs = range(len(way.clocks[CLOCKS[0]][0].configs))
    found = []
    for picks in product(product(CLOCKS, configs), repeat=len(names)):
        picked = dict(zip(names, picks, strict=True))
        found.append((picked, _run(way, cost, picked)))
    return found


def _run(way: Way, cost: SwitchCost, picked: dict[str, tuple[int, int]]) -> Outcome:
    """The layers one after the other, and back to the clock at which the operation starts."""
    run = [name for name in ORDER if name in picked and name == "embedding"]
    run += [name for name in ORDER if name in picked and name != "embedding"] * LAYERS
    time_s = energy_j = 0.0
    for index, one in enumerate(way.clocks[CLOCKS[0]]):
        clock, config = picked[one.partition]
        time_s += float(way.clocks[clock][index].time_s[config])
        energy_j += float(way.clocks[clock][index].energy_j[config])
    for name, following in zip(run, [*run[1:], run[0]], strict=True):
        if picked[name][0] != picked[following][0]:
            time_s, energy_j = time_s + cost.time_s, energy_j + cost.energy_j
    return Outcome(time_s, energy_j - WAIT_W * time_s)


def _front(time_s: Any, effective_j: Any) -> list[Outcome]:
    kept = pareto_indices(np.asarray(time_s), np.asarray(effective_j))
    return [Outcome(float(time_s[k]), float(effective_j[k])) for k in kept]


def _outcome(option: Option) -> Outcome:
    return Outcome(option.time_s, option.energy_j - WAIT_W * option.time_s)


def _assert_same(found: list[Outcome], expected: list[Outcome]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-9)


def _with_known(way: Way, cost: SwitchCost, deadlines: int | None) -> list[Outcome]:
    known = _one_clock(way)
    scales = dict.fromkeys(CLOCKS, (1.0, 1.0))
    mixed = [_outcome(one) for one, _ in mixed_options(way, _mixing(cost), scales, WAIT_W, known, deadlines)]
    time_s = np.concatenate((known[0], [one.time_s for one in mixed]))
    return _front(time_s, np.concatenate((known[1], [one.effective_j for one in mixed])))


@pytest.mark.parametrize("cost", [FREE, CHEAP, MIDDLING, DEAR])
@pytest.mark.parametrize("seed", range(2))
def test_the_front_is_that_of_every_combination(seed: int, cost: SwitchCost) -> None:
    way = _way(seed)
    every = [outcome for _, outcome in _all(way, cost)]
    expected = _front(np.array([one.time_s for one in every]), np.array([one.effective_j for one in every]))
    slowest_s = _one_clock_slowest_s(way)
    found = _with_known(way, cost, None)
    _assert_same(
        [one for one in found if one.time_s <= slowest_s],
        [one for one in expected if one.time_s <= slowest_s],
    )
    _assert_same(found[-1:], expected[-1:])


def _one_clock_slowest_s(way: Way) -> float:
    """Beyond the slowest option of one clock only vertices of the hull are looked for."""
    return _front(*_one_clock(way))[-1].time_s


@pytest.mark.parametrize("cost", [FREE, CHEAP, MIDDLING])
@pytest.mark.parametrize("seed", range(2, 5))
def test_every_vertex_of_the_hull_is_found_with_few_deadlines(seed: int, cost: SwitchCost) -> None:
    """So bounds hold for all combinations: none is cheaper than the options at any price of time."""
    way = _way(seed)
    every = [outcome for _, outcome in _all(way, cost)]
    front = _front(np.array([one.time_s for one in every]), np.array([one.effective_j for one in every]))
    hull = lower_hull([one.time_s for one in front], [one.effective_j for one in front])
    found = _with_known(way, cost, 1)
    for vertex in hull.tolist():
        assert any(one == pytest.approx(front[vertex], rel=1e-9) for one in found)


@pytest.mark.parametrize("seed", range(2))
def test_for_free_it_is_the_sum_of_the_partitions_fronts_over_all_clocks(seed: int) -> None:
    way = _way(seed, configs=2, names=("norm", "attention", "mlp"))
    parts = []
    for index in range(3):
        time_s = np.concatenate([way.clocks[clock][index].time_s for clock in CLOCKS])
        energy_j = np.concatenate([way.clocks[clock][index].energy_j for clock in CLOCKS])
        parts.append(Part(time_s=time_s, energy_j=energy_j - WAIT_W * time_s))
    front = minkowski_front(parts)
    expected = [Outcome(*one) for one in zip(front.time_s.tolist(), front.energy_j.tolist(), strict=True)]
    last_s = _one_clock_slowest_s(way)
    found = _with_known(way, FREE, None)
    _assert_same(
        [one for one in found if one.time_s <= last_s], [one for one in expected if one.time_s <= last_s]
    )


@pytest.mark.parametrize("seed", range(3))
def test_where_changes_are_dear_there_are_the_options_of_one_clock(seed: int) -> None:
    way = _way(seed, configs=3)
    alone = compose([way], {}, WAIT_W, None)
    beside = compose([way], {}, WAIT_W, None, _mixing(DEAR))
    assert beside.offered == alone.offered
    assert beside.measured == alone.measured


@pytest.mark.parametrize("cost", [FREE, CHEAP])
def test_an_option_costs_what_its_clocks_and_configurations_cost(cost: SwitchCost) -> None:
    """It starts at its own clock, and partitions say where theirs differs from that."""
    way = _way(1, configs=3)
    composed = compose([way], {}, WAIT_W, None, _mixing(cost))
    mixed = [one for one in composed.offered[2] if any(config.sm_clock_mhz for _, config in one.partitions)]
    assert mixed
    for option in mixed:
        configs = dict(option.partitions)
        picked = {}
        for one in way.clocks[CLOCKS[0]]:
            config = configs.get(one.partition, PLAIN)
            plain = PartitionConfig(
                execution=config.execution, comm_sms=config.comm_sms, comm_launch=config.comm_launch
            )
            picked[one.partition] = (config.sm_clock_mhz or option.sm_clock_mhz, CONFIGS.index(plain))
        assert _outcome(option) == pytest.approx(_run(way, cost, picked), rel=1e-9)
        assert picked["embedding"][0] == option.sm_clock_mhz, "what runs first"
        assert all(config.sm_clock_mhz != option.sm_clock_mhz for config in configs.values())


def test_rows_of_the_operation_scale_partitions_at_each_clock() -> None:
    """Training took 1.2 times the partitions' sum at 900 MHz and 1.1 times at 1100 MHz: so do they mixed."""
    way = Way(
        nanobatches=1,
        clocks={clock: choices for clock, choices in _way(2, 1).clocks.items() if clock != 1000},
    )
    factors = {900: 1.2, 1100: 1.1}
    whole = {
        clock: Option(
            sm_clock_mhz=clock,
            time_s=factor * sum(float(one.time_s[0]) for one in way.clocks[clock]),
            energy_j=factor * sum(float(one.energy_j[0]) for one in way.clocks[clock]),
        )
        for clock, factor in factors.items()
    }
    composed = compose([way], whole, WAIT_W, None, _mixing(FREE))
    mixed = [one for one in composed.offered[1] if one.partitions]
    assert mixed
    for option in mixed:
        configs = dict(option.partitions)
        own = [
            configs.get(one.partition, PLAIN).sm_clock_mhz or option.sm_clock_mhz for one in way.clocks[900]
        ]
        time_s = sum(
            factors[clock] * float(way.clocks[clock][index].time_s[0]) for index, clock in enumerate(own)
        )
        assert option.time_s == pytest.approx(time_s)


def test_one_clock_or_one_partition_cannot_be_mixed() -> None:
    way = _way(0)
    single = Way(nanobatches=1, clocks={900: way.clocks[900]})
    lone = Way(nanobatches=1, clocks={clock: choices[:1] for clock, choices in way.clocks.items()})
    scales = dict.fromkeys(CLOCKS, (1.0, 1.0))
    known = np.array([1.0]), np.array([1.0])
    assert mixed_options(single, _mixing(FREE), scales, WAIT_W, known) == []
    assert mixed_options(lone, _mixing(FREE), scales, WAIT_W, known) == []


@pytest.mark.parametrize(
    ("order", "why"), [(None, "the 4 partitions of the forward of stage 0"), (ORDER[:3], "mlp has no place")]
)
def test_an_order_that_matters_has_to_be_known(order: tuple[str, ...] | None, why: str) -> None:
    with pytest.raises(ProfileError, match=why):
        compose([_way(0)], {}, WAIT_W, None, _mixing(CHEAP, order))


def test_savings_by_clocks_of_partitions_are_on_what_runs_plainly() -> None:
    """With nothing but plain partitions, all that an option saves beside its own clock is by their clocks."""
    way = _way(3, configs=1)
    composed = compose([way], {}, WAIT_W, None, _mixing(CHEAP))
    for option, shares in composed.shares.items():
        same = sum(
            float(one.energy_j[0]) - WAIT_W * float(one.time_s[0]) for one in way.clocks[option.sm_clock_mhz]
        )
        assert shares.clock_j == pytest.approx(same - _outcome(option).effective_j, abs=1e-9)
        assert shares.sm_j == 0.0
