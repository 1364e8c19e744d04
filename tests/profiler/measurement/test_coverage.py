"""Error bars are honest: the true value lies inside the stated 95 % interval in 90 to 99 % of 200 repetitions."""

from collections import Counter
from collections.abc import Callable

import pytest

from energyopt.profiler.benches.simulated import SimulatedBench, open_simulated_bench
from energyopt.profiler.measurement.compose import op_parts, rows_of
from energyopt.profiler.measurement.settings import Settings, timing_for
from energyopt.profiler.measurement.sweep import Sweep
from energyopt.profiler.workloads.interface import Workload
from energyopt.schemas.intervals import half_width
from energyopt.schemas.profile import EnergySource, Level, ProfileRow

REPETITIONS = 200
LEAST_OF_ONE = 0.88
"""For one kernel at one clock, where a share of 0.95 has a standard deviation of 0.015 by chance."""

CLOCKS = (1410, 1005)  # at its power limit, and far below
WARM_S = 60.0
TICK_S = 0.1


def true_cost(bench: SimulatedBench, workload: Workload, row: ProfileRow) -> tuple[float, float]:
    """Of what the row describes, at the mean temperature that it states."""
    assert row.temperature_start_c is not None
    assert row.temperature_end_c is not None
    temperature_c = (row.temperature_start_c + row.temperature_end_c) / 2
    kernels = {one.name: one for one in workload.kernels()}
    parts = op_parts(workload.ops[0]) if row.kernel is None else [(row.kernel, 1)]
    costs = [
        (count, bench.true_cost(kernels[name], row.sm_clock_mhz, temperature_c)) for name, count in parts
    ]
    return sum(count * cost[0] for count, cost in costs), sum(count * cost[1] for count, cost in costs)


def is_inside(value: float, std: float | None, samples: int | None, true: float) -> bool:
    half = half_width(std, samples)
    assert half is not None
    return abs(value - true) <= half


@pytest.mark.parametrize(
    ("window_s", "windows", "limit_w"),
    [
        pytest.param(None, 5, None, id="default"),
        pytest.param(5 * TICK_S, 5, None, id="shortest"),
        pytest.param(5 * TICK_S, 2, None, id="two-of-the-shortest"),
        pytest.param(None, 2, None, id="two"),
        pytest.param(3.0, 5, None, id="long"),
        pytest.param(None, 5, 250.0, id="capped"),
    ],
)
def test_the_truth_is_in_90_to_99_percent_of_the_intervals(
    window_s: float | None,
    windows: int,
    limit_w: float | None,
    workload: Workload,
    make_sweep: Callable[..., Sweep],
) -> None:
    timing = timing_for(Settings(clocks_mhz=CLOCKS, window_s=window_s), TICK_S, 0.0)
    hits: Counter[tuple[Level, str]] = Counter()
    cells: Counter[tuple[str, str]] = Counter()
    rows = 0
    for seed in range(REPETITIONS):
        bench = open_simulated_bench("a100-sxm4-80gb", seed=seed, power_limit_w=limit_w)
        warm = workload.kernels()[0]
        bench.run(warm, round(WARM_S / bench.true_cost(warm, 1410, 60.0)[0]))
        sweep = make_sweep(bench, CLOCKS, timing, windows=windows, seed=seed)
        sweep.run()
        for row in rows_of(workload, sweep.windows, CLOCKS, EnergySource.COUNTER, None):
            if row.level is Level.PARTITION:
                continue
            rows += 1
            time_s, energy_j = true_cost(bench, workload, row)
            hits[row.level, "time"] += is_inside(row.time_s, row.time_std_s, row.samples, time_s)
            hits[row.level, "energy"] += is_inside(row.energy_j, row.energy_std_j, row.samples, energy_j)
            hits[row.level, "rows"] += 1
            cell = f"{row.kernel or row.op} at {row.sm_clock_mhz} MHz"
            cells[cell, "time"] += is_inside(row.time_s, row.time_std_s, row.samples, time_s)
            cells[cell, "energy"] += is_inside(row.energy_j, row.energy_std_j, row.samples, energy_j)
    assert rows == REPETITIONS * len(CLOCKS) * 3
    for level in (Level.KERNEL, Level.OP):
        for quantity in ("time", "energy"):
            share = hits[level, quantity] / hits[level, "rows"]
            assert 0.90 <= share <= 0.99, f"{share:.3f} of the {level} rows hold the true {quantity}"
    assert len(cells) == len(CLOCKS) * 3 * 2
    worst, count = min(cells.items(), key=lambda one: one[1])
    assert count >= LEAST_OF_ONE * REPETITIONS, f"{count / REPETITIONS:.3f} of the rows of {worst}"
