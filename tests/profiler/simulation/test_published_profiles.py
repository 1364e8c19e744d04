"""The simulated boards against the stage profiles that Perseus (SOSP 2024, artifact) measured on real ones.

The published jobs ran pipelines of eight stages; what fits their times is one GPU's share of a layer cut over
eight, 12 layers a stage of GPT-3 175B, and 9 of Bloom 176B with the remaining 7 on the last stage. The measurements
know no communication. The A100's limit must have been 500 W: it draws 480 W.
"""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import linprog

from energyopt.profiler.benches.simulated import SimulatedBench, open_simulated_bench
from energyopt.profiler.simulation.gpus import GPUS
from energyopt.profiler.simulation.thermal import steady_c
from energyopt.profiler.workloads.architecture import Activation, Architecture, Norm, Position
from energyopt.profiler.workloads.interface import Kernel
from energyopt.profiler.workloads.job import JobShape
from energyopt.profiler.workloads.presets import PRESETS
from energyopt.profiler.workloads.transformer import transformer_workload

REQUIRED = 0.05  # of time and energy relative to the top clock, at every clock

# BigScience's config.json beside the published weights; ALiBi adds no kernel of its own
BLOOM = Architecture(
    name="bloom-176b",
    hidden_size=14336,
    num_hidden_layers=70,
    num_attention_heads=112,
    num_key_value_heads=112,
    head_dim=128,
    intermediate_size=4 * 14336,
    vocab_size=250880,
    hidden_act=Activation.GELU,
    gated_mlp=False,
    norm=Norm.LAYER,
    position=Position.LEARNED,
    tie_word_embeddings=True,
    max_position_embeddings=2048,
)


class Published(NamedTuple):
    file: str
    gpu: str
    limit_w: float
    architecture: Architecture
    layers: tuple[int, ...]


A100 = Published("gpt3-175b.a100-sxm-80gb.csv", "a100-sxm4-80gb", 500.0, PRESETS["gpt3-175b"], (12,) * 8)
A40 = Published("bloom-176b.a40-48gb.csv", "a40", 300.0, BLOOM, (9,) * 7 + (7,))
CURVES = [
    *((A100, stage, kind) for stage in range(8) for kind in ("forward", "backward")),
    *((A40, stage, "backward") for stage in range(8)),
]


def measured(folder: Path, published: Published, stage: int, kind: str) -> dict[int, tuple[float, float]]:
    """Time and energy by clock, highest first."""
    with (folder / "stage-profiles" / published.file).open() as file:
        rows = [
            row for row in csv.DictReader(file) if row["stage"] == str(stage) and row["instruction"] == kind
        ]
    found = {int(row["frequency"]): (float(row["time"]), float(row["energy"])) for row in rows}
    return dict(sorted(found.items(), reverse=True))


def kernels(published: Published, stage: int, kind: str) -> list[tuple[Kernel, int]]:
    shape = JobShape(
        stages=8,
        layers_per_stage=published.layers,
        tensor_parallel=8,
        dtype="float16",
        sequence_parallel=False,
    )
    workload = transformer_workload(published.architecture, shape)
    op = next(op for op in workload.ops if (op.stage, op.kind) == (stage, kind))
    return [
        (use.kernel, use.count * part.count)
        for part in op.partitions
        for use in part.partition.kernels
        if use.kernel.communication is None
    ]


def simulated(
    bench: SimulatedBench, gpu: str, uses: list[tuple[Kernel, int]], clock: int
) -> tuple[float, float]:
    """Time and energy of an op at the temperature that the board settles at."""
    temperature_c, time_s, energy_j = 60.0, 0.0, 0.0
    for _ in range(3):
        costs = [(bench.true_cost(kernel, clock, temperature_c), count) for kernel, count in uses]
        time_s = sum(count * one[0] for one, count in costs)
        energy_j = sum(count * one[1] for one, count in costs)
        temperature_c = steady_c(GPUS[gpu].thermal, energy_j / time_s)
    return time_s, energy_j


@pytest.mark.parametrize(("published", "stage", "kind"), CURVES)
def test_time_and_energy_follow_the_measured_curves(
    shared_data: Path, published: Published, stage: int, kind: str
) -> None:
    bench = open_simulated_bench(published.gpu, power_limit_w=published.limit_w)
    uses = kernels(published, stage, kind)
    real = measured(shared_data, published, stage, kind)
    model = {clock: simulated(bench, published.gpu, uses, clock) for clock in real}
    assert len(real) == {"a40": 60, "a100-sxm4-80gb": 38}[published.gpu]
    top = max(real)
    for clock in real:
        for quantity in (0, 1):
            ratio = real[clock][quantity] / real[top][quantity]
            assert model[clock][quantity] / model[top][quantity] == pytest.approx(ratio, rel=REQUIRED), clock
    assert model[top][0] == pytest.approx(real[top][0], rel=0.1)
    assert model[top][1] / model[top][0] == pytest.approx(real[top][1] / real[top][0], rel=0.04)


@pytest.mark.parametrize("stage", range(7))
def test_no_model_could_follow_the_a40_forward(shared_data: Path, stage: int) -> None:
    """Why the A40's forward is left out: its clocks below 1065 MHz are 6 % faster than those just above.

    A kernel's time is a fixed part and norms of parts that are constant or fall as 1/clock: it is convex in the
    clock and never rises with it, and a cap on power makes it flat at the top. The best such curve, whatever its
    shape, is further than 5 % from the measurement somewhere.
    """
    real = measured(shared_data, A40, stage, "forward")
    ratios = np.array([real[clock][0] for clock in sorted(real)]) / real[max(real)][0]
    assert smallest_error_of_a_convex_curve(ratios) > REQUIRED
    backward = measured(shared_data, A40, stage, "backward")
    others = np.array([backward[clock][0] for clock in sorted(backward)]) / backward[max(backward)][0]
    assert smallest_error_of_a_convex_curve(others) < 0.005


def smallest_error_of_a_convex_curve(ratios: np.ndarray) -> float:
    """A linear program over the curve's values and its largest relative error; the last value is 1.

    ratios: time relative to that at the highest clock, lowest clock first; clocks equally spaced.
    """
    count = len(ratios)
    relative, ones = np.diag(1 / ratios), np.ones((count, 1))
    above, below = np.hstack([relative, -ones]), np.hstack([-relative, -ones])
    falls = np.diff(np.eye(count, count + 1), axis=0)
    bends = -np.diff(np.eye(count, count + 1), n=2, axis=0)
    solved = linprog(
        np.eye(count + 1)[-1],
        A_ub=np.vstack([above, below, falls, bends]),
        b_ub=np.concatenate([np.ones(count), -np.ones(count), np.zeros(2 * count - 3)]),
        A_eq=np.eye(count + 1)[[count - 1]],
        b_eq=[1.0],
    )
    assert solved.success
    return float(solved.fun)
