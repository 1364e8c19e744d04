"""Fits the constants of the simulated A100 and A40 that no datasheet gives to the published stage profiles.

`python -m benchmarks.fit_simulation` prints them for `energyopt.profiler.simulation.ampere`, and how far stage 0 is
from the measurements then. Each starts at a plausible figure and is held near it by a prior, so that what the
measurements leave open stays physical. The workload is one GPU's share of the published job: an eighth of each
layer (tensor parallel 8, norms whole, communication left out), 12 layers a stage of GPT-3 175B and 9 of Bloom 176B,
one sequence of 2048. The A40's forward is not fitted: its times jump by 6 % between neighbouring clocks.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from energyopt.profiler.simulation.costs import Costs, kernel_costs, operate, standing_costs
from energyopt.profiler.simulation.gpus import GPUS
from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.simulation.thermal import leakage_factor, steady_c
from energyopt.profiler.workloads.architecture import Activation, Architecture, Norm, Position
from energyopt.profiler.workloads.job import JobShape
from energyopt.profiler.workloads.presets import PRESETS
from energyopt.profiler.workloads.transformer import transformer_workload

DATA = Path(__file__).resolve().parents[1] / "../shared/data/stage-profiles"
BLOOM = Architecture(
    name="bloom-176b", hidden_size=14336, num_hidden_layers=70, num_attention_heads=112, num_key_value_heads=112,
    head_dim=128, intermediate_size=4 * 14336, vocab_size=250880, hidden_act=Activation.GELU, gated_mlp=False,
    norm=Norm.LAYER, position=Position.LEARNED, tie_word_embeddings=True, max_position_embeddings=2048,
)  # fmt: skip
SHARED = {  # start, and how far (as a factor's logarithm) one standard deviation of the prior is
    "matrix_efficiency": (0.87, 0.04), "reread_bytes_per_flop": (0.003, 0.7), "wait_share": (0.3, 0.5),
    "leakage_w": (25.0, 0.4), "highest_v": (1.0, 0.1),
}  # fmt: skip
A100 = SHARED | {
    "memory_efficiency": (0.9, 0.02), "knee_mhz": (1060.0, 0.02), "board_w": (30.0, 0.2),
    "active_w_per_ghz": (70.0, 0.5), "flop_j": (0.7e-12, 0.5), "memory_byte_j": (45e-12, 0.25),
}  # fmt: skip
A40 = SHARED | {
    "memory_efficiency": (0.87, 0.03), "knee_mhz": (1155.0, 0.03), "board_w": (28.0, 0.2),
    "active_w_per_ghz": (50.0, 0.5), "flop_j": (0.8e-12, 0.5), "memory_byte_j": (90e-12, 0.25),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One published profile and what was run for it."""

    file: str
    gpu: str
    limit_w: float
    wait_w: float
    architecture: Architecture
    layers: tuple[int, ...]
    kinds: tuple[str, ...]
    priors: Mapping[str, tuple[float, float]]


JOBS = (
    Job(
        file="gpt3-175b.a100-sxm-80gb.csv", gpu="a100-sxm4-80gb", limit_w=500.0, wait_w=83.64,
        architecture=PRESETS["gpt3-175b"], layers=(12,) * 8, kinds=("forward", "backward"), priors=A100,
    ),
    Job(
        file="bloom-176b.a40-48gb.csv", gpu="a40", limit_w=300.0, wait_w=70.38,
        architecture=BLOOM, layers=(9,) * 7 + (7,), kinds=("backward",), priors=A40,
    ),
)  # fmt: skip


def measured(job: Job, kind: str) -> NDArray[np.float64]:
    """Clock, time and energy of stage 0, highest clock first."""
    with (DATA / job.file).open() as file:
        rows = [row for row in csv.DictReader(file) if (row["stage"], row["instruction"]) == ("0", kind)]
    table = np.array([[float(row[name]) for name in ("frequency", "time", "energy")] for row in rows])
    return table[np.argsort(-table[:, 0])]


def simulated(job: Job, spec: GpuSpec, kind: str, clocks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Time and energy of stage 0 at each clock, at the temperature that it settles at."""
    shape = JobShape(
        stages=8, layers_per_stage=job.layers, tensor_parallel=8, dtype="float16", sequence_parallel=False
    )
    op = next(
        op for op in transformer_workload(job.architecture, shape).ops if (op.stage, op.kind) == (0, kind)
    )
    uses = [
        (kernel_costs(spec, use.kernel), use.count * part.count)
        for part in op.partitions for use in part.partition.kernels if use.kernel.communication is None
    ]  # fmt: skip
    supported = spec.clocks.supported_mhz()
    return np.array([_settled(job, spec, uses, supported.index(int(clock))) for clock in clocks])


def _settled(job: Job, spec: GpuSpec, uses: list[tuple[Costs, int]], asked: int) -> tuple[float, float]:
    temperature_c, time_s, energy_j = 60.0, 0.0, 0.0
    for _ in range(3):
        found = [(operate(one, asked, job.limit_w, leakage_factor(temperature_c)), n) for one, n in uses]
        time_s = sum(n / one.runs_per_s for one, n in found)
        energy_j = sum(n * one.power_w / one.runs_per_s for one, n in found)
        temperature_c = steady_c(spec.thermal, energy_j / time_s)
    return time_s, energy_j


def wait_w(job: Job, spec: GpuSpec) -> float:
    """Wait power at the highest clock."""
    costs = standing_costs(spec, spec.power.wait_share)
    warmth = leakage_factor(steady_c(spec.thermal, job.wait_w))
    return operate(costs, len(costs.power_w) - 1, job.limit_w, warmth).power_w


def with_constants(spec: GpuSpec, constants: Mapping[str, float]) -> GpuSpec:
    """The GPU with these constants in their places."""
    places = ("throughput", "voltage", "power")
    for place in places:
        part = getattr(spec, place)
        own = {name: value for name, value in constants.items() if name in part.__slots__}
        spec = replace(spec, **{place: replace(part, **own)})
    return spec


def fit(job: Job) -> tuple[dict[str, float], GpuSpec]:
    """The constants, and the GPU with them."""
    tables = {kind: measured(job, kind) for kind in job.kinds}

    def constants(x: NDArray[np.float64]) -> dict[str, float]:
        return {
            name: start * float(np.exp(step * spread))
            for (name, (start, spread)), step in zip(job.priors.items(), x, strict=True)
        }

    def residuals(x: NDArray[np.float64]) -> NDArray[np.float64]:
        spec = with_constants(GPUS[job.gpu], constants(x))
        parts = [0.3 * x, np.array([np.log(wait_w(job, spec) / job.wait_w) / 0.001])]
        for kind, table in tables.items():
            found = simulated(job, spec, kind, table[:, 0])
            off = relative(found, table) / 0.02
            time_off, energy_off = np.log(found[0] / table[0, 1:])
            parts += [off.ravel() / 3, off.ravel() ** 3 / 3]  # the cube weighs the worst clocks
            parts.append(np.array([time_off / 0.05, (energy_off - time_off) / 0.01]))
        return np.concatenate(parts)

    best = constants(least_squares(residuals, np.zeros(len(job.priors))).x)
    return best, with_constants(GPUS[job.gpu], best)


def relative(found: NDArray[np.float64], table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Errors of time and energy, each relative to its value at the top clock."""
    return (found / found[0]) / (table[:, 1:] / table[0, 1:]) - 1


def main() -> None:
    """Fit and print."""
    for job in JOBS:
        best, spec = fit(job)
        print(job.gpu, ", ".join(f"{name}={value:.4g}" for name, value in best.items()))
        for kind in job.kinds:
            table = measured(job, kind)
            found = simulated(job, spec, kind, table[:, 0])
            worst = np.abs(relative(found, table)).max(axis=0)
            print(
                f"  {kind}: time within {worst[0]:.2%}, energy within {worst[1]:.2%} of the top clock's ratio"
            )


if __name__ == "__main__":
    main()
