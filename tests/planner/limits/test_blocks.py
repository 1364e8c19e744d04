"""Blocks last as long as a clock has to be kept, share a clock whatever is chosen, and cover every operation."""

from collections.abc import Callable
from itertools import groupby, product
from typing import Any

import numpy as np
import pytest

from energyopt.planner.limits.block_seeds import paced_blocks
from energyopt.planner.limits.blocks import BlockProblem, block_numbers
from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.limits.starts import MARGINS, NEAR_PACES
from energyopt.planner.realisation.price_tables import FACTORS, price_tables
from energyopt.planner.realisation.sweeps import Sweeper

PLANS = 6
JOBS = [
    {"stages": 3, "microbatches": 5},
    {"schedule": "zb-h1", "stages": 2, "microbatches": 4, "p2p_time_s": 0.1},
    {"schedule": "interleaved-1f1b", "stages": 2, "microbatches": 4, "chunks_per_stage": 2},
]


@pytest.fixture(params=JOBS, ids=lambda one: one.get("schedule", "1f1b"))
def table(request: pytest.FixtureRequest, random_job: Callable[..., Any], make_table: Any) -> ClockTable:
    found: ClockTable = make_table(random_job(4, most=8, **request.param))
    return found


def _blocks(table: ClockTable, dwell_s: float) -> list[list[int]]:
    """The operations of each block."""
    numbers = block_numbers(table, dwell_s).tolist()
    return [[op for op, _ in group] for _, group in groupby(enumerate(numbers), key=lambda one: one[1])]


@pytest.mark.parametrize("dwell_s", [0.1, 1.5, 4.0, 1000.0])
def test_blocks_are_the_shortest_that_last_long_enough(table: ClockTable, dwell_s: float) -> None:
    blocks = _blocks(table, dwell_s)
    stages = [op.stage for op in table.problem.schedule.ops]
    fastest_s = table.time_nC.min(axis=1)
    assert [op for block in blocks for op in block] == list(range(table.problem.n_ops))
    assert len(blocks) == int(block_numbers(table, dwell_s).max()) + 1
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        assert len({stages[op] for op in block}) == 1
        is_last = following is None or stages[following[0]] != stages[block[0]]
        is_whole_stage = stages.count(stages[block[0]]) == len(block)
        assert fastest_s[block].sum() >= dwell_s or is_whole_stage
        if not is_last:
            assert fastest_s[block[:-1]].sum() < dwell_s


def test_whatever_a_sweep_chooses_a_block_has_one_clock(table: ClockTable) -> None:
    """And every operation takes the time that it was measured to take at that clock."""
    blocks = BlockProblem(table, block_numbers(table, 2.5))
    problem = blocks.problem
    sweeper = Sweeper(problem, blocks.block_of, blocks.kind_of)
    rng = np.random.default_rng(0)
    tables = price_tables(
        problem, sweeper.front_of, rng.uniform(0, 500, (problem.n_ops, 1)), shared=sweeper.shared
    )
    fastest_s = np.repeat(problem.fastest_s[sweeper.order][:, None], PLANS, axis=1)
    deadline_s = sweeper.makespan_s(fastest_s) * np.linspace(1.0, 1.6, PLANS)
    rows = tables.rows(np.zeros(PLANS, dtype=np.int64), rng.integers(0, len(FACTORS), (problem.n_ops, PLANS)))
    latest_s = sweeper.latest_finish_s(fastest_s, deadline_s)
    forward, start_s, _ = sweeper.forward(latest_s, tables, rows)
    backward, _, _ = sweeper.backward(start_s, deadline_s, tables, rows)
    for found in (forward, backward):
        choices = np.empty(found.shape, dtype=np.int64)
        choices[sweeper.order] = found
        clocks = blocks.clocks(choices)
        for block in _blocks(table, 2.5):
            assert (clocks[block] == clocks[block[0]]).all()
        assert sweeper.time_s(found).tolist() == table.time_s(clocks)[sweeper.order].tolist()
        assert len(np.unique(clocks)) > 1


def test_a_block_takes_the_best_option_that_fits_into_its_time(table: ClockTable) -> None:
    """Of one block alone, by trying all: what comes before it has all the time it wants."""
    blocks = BlockProblem(table, block_numbers(table, 2.5))
    sweeper = Sweeper(blocks.problem, blocks.block_of, blocks.kind_of)
    price_w = np.full((blocks.problem.n_ops, 1), 120.0)
    tables = price_tables(blocks.problem, sweeper.front_of, price_w, shared=sweeper.shared)
    anchor = np.zeros(PLANS, dtype=np.int64)
    first = _blocks(table, 2.5)[0]  # of the first stage: nothing comes before it
    fronts = [blocks.problem.fronts[front] for front in blocks.problem.front_of[first]]
    time_s, energy_j = sum(one.time_s for one in fronts), sum(one.effective_j for one in fronts)
    place = {int(op): index for index, op in enumerate(sweeper.order)}
    leader = place[first[0]]
    for factor in (0, 6, 10):
        room_s = np.linspace(time_s[0], time_s[-1] * 1.1, PLANS)
        latest_s = np.full((len(sweeper.order), PLANS), 1e6)
        latest_s[leader] = room_s
        choices, _, _ = sweeper.forward(latest_s, tables, tables.rows(anchor, anchor + factor))
        cost_j = energy_j + FACTORS[factor] * 120.0 * time_s
        expected = [np.where(time_s <= one + 1e-9, cost_j, np.inf).min() for one in room_s]
        assert cost_j[choices[leader]] == pytest.approx(expected, rel=1e-9)


def test_paced_blocks_take_their_share_of_a_pace(table: ClockTable) -> None:
    """Of the slowest options that do: the next one is too slow; at the ends, and where none does, the fastest."""
    blocks = BlockProblem(table, block_numbers(table, 1.5))
    problem = blocks.problem
    ops, fastest_s = problem.schedule.ops, [problem.fronts[front].time_s[0] for front in problem.front_of]
    stage_s = [
        sum(s for op, s in zip(ops, fastest_s, strict=True) if op.stage == one)
        for one in range(max(op.stage for op in ops) + 1)
    ]
    expected = set()
    for margin, pace in product((0.0, *MARGINS), NEAR_PACES):
        plan, reach = [0] * len(ops), margin * problem.schedule.stages
        for block in _blocks(table, 1.5):
            options = len(problem.fronts[problem.front_of[block[0]]].time_s)
            own_s = [
                sum(problem.fronts[problem.front_of[op]].time_s[n] for op in block) for n in range(options)
            ]
            allowed_s = pace * max(stage_s) * own_s[0] / stage_s[ops[block[0]].stage]
            fitting = [choice for choice, time_s in enumerate(own_s) if time_s <= allowed_s * (1 + 1e-9)]
            if all(reach <= ops[op].microbatch < problem.schedule.microbatches - reach for op in block):
                for op in block:
                    plan[op] = max(fitting, default=0)
        expected.add(tuple(plan))
    plans = paced_blocks(blocks, len(NEAR_PACES)).T.tolist()
    assert sorted(map(tuple, plans)) == sorted(expected)
    assert len(expected) > 2
    assert {tuple(plan) for plan in paced_blocks(blocks, 3).T.tolist()} < expected
