"""What the planner's tests share: small jobs, the two published profiles, and enumeration as the judge.

The enumeration shares no code with the planner: dependencies are written down from the definition of a pipeline,
every row of the profile is an option, and energy is what operations draw plus wait power for the rest of the time.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from energyopt.planner.graph import build_graph
from energyopt.planner.options import measured_options
from energyopt.planner.problem import Problem, build_problem
from energyopt.planner.schedules.registry import build_schedule
from energyopt.profiler.importers.lowtime import read_lowtime_csv
from energyopt.schemas.ops import OpKind, Schedule
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.profile import EnergySource, Level, Profile, ProfileRow
from energyopt.schemas.profile_metadata import DeviceKind, ProfileMetadata
from energyopt.schemas.sweep import Layout, PlannedLayout, Sweep, SweepPoint

Row = tuple[int | None, int | None, OpKind, int, float, float]  # stage, chunk, kind, clock, time_s, energy_j
REAL = {  # wait power in W, from the data's own README
    "a100": ("gpt3-175b.a100-sxm-80gb", 83.64),
    "a40": ("bloom-176b.a40-48gb", 70.38),
}


class Job(NamedTuple):
    profile: Profile
    pipeline: Pipeline
    schedule: Schedule


class Outcome(NamedTuple):
    """What one combination of options costs, with one GPU per stage."""

    time_s: float
    energy_j: float
    effective_j: float


def _profile(rows: Iterable[Row], wait_power_w: float = 80.0, gpus_per_stage: int = 1) -> Profile:
    metadata = ProfileMetadata(
        device_name="test",
        device_kind=DeviceKind.SIMULATED,
        wait_power_w=wait_power_w,
        gpus_per_stage=gpus_per_stage,
    )
    return Profile(
        metadata=metadata,
        rows=tuple(
            ProfileRow(
                level=Level.OP,
                stage=stage,
                chunk=chunk,
                op=kind,
                sm_clock_mhz=clock,
                time_s=time_s,
                energy_j=energy_j,
                energy_source=EnergySource.MODEL,
            )
            for stage, chunk, kind, clock, time_s, energy_j in rows
        ),
    )


def _random_rows(schedule: Schedule, seed: int, most: int, style: str) -> list[Row]:
    """`smooth`: time falls and energy rises with the clock; `noisy`: unrelated; `round`: small whole numbers."""
    chance, rows = random.Random(seed), []
    for stage, chunk, kind in sorted({op.key for op in schedule.ops}):
        size = chance.uniform(0.5, 2.0)
        for index in range(chance.randint(1, most)):
            clock = 1400 - 100 * index
            cost = {
                "smooth": (size * 1400 / clock, 300 * size * (clock / 1400) ** 1.5),
                "noisy": (chance.uniform(0.5, 2.0), chance.uniform(50, 600)),
                "round": (float(chance.randint(1, 4)), 100.0 * chance.randint(1, 6)),
            }[style]
            rows.append((stage, chunk, kind, clock, *cost))
    return rows


def _predecessors(schedule: Schedule, p2p_time_s: float) -> list[tuple[int, list[tuple[int, float]]]]:
    """(operation, [(operation before it, lag)]), in an order in which the ones before come first."""
    ops, at = schedule.ops, {}
    for index, op in enumerate(ops):
        name = "F" if op.kind is OpKind.FORWARD else "W" if op.kind is OpKind.BACKWARD_WEIGHT else "B"
        at[name, schedule.virtual_stages[op.stage][op.chunk], op.microbatch] = index
    needs: dict[int, list[int]] = {index: [] for index in range(len(ops))}
    for (name, virtual, microbatch), index in at.items():
        before = {"F": [("F", virtual - 1)], "B": [("B", virtual + 1), ("F", virtual)], "W": [("B", virtual)]}
        needs[index] += [at[n, v, microbatch] for n, v in before[name] if (n, v, microbatch) in at]
        if index and ops[index - 1].stage == ops[index].stage:
            needs[index].append(index - 1)
    done: list[int] = []
    while len(done) < len(ops):
        done += [i for i in needs if i not in done and all(j in done for j in needs[i])]
    lag = [[p2p_time_s * (ops[i].stage != ops[j].stage) for j in needs[i]] for i in range(len(ops))]
    return [(i, list(zip(needs[i], lag[i], strict=True))) for i in done]


def _longest_path_s(before: list[tuple[int, list[tuple[int, float]]]], time_s: Sequence[float]) -> float:
    finish = [0.0] * len(time_s)
    for op, needs in before:
        finish[op] = max((finish[other] + lag for other, lag in needs), default=0.0) + time_s[op]
    return max(finish)


def _enumerate(job: Job) -> list[Outcome]:
    """Every combination of measured rows; what the longest path leaves of the time is drawn at wait power."""
    profile, pipeline, schedule = job
    rows = {op.key: [r for r in profile.rows if (r.stage, r.chunk, r.op) == op.key] for op in schedule.ops}
    before, wait_w = _predecessors(schedule, pipeline.p2p_time_s), profile.metadata.wait_power_w
    found = []
    for chosen in product(*(rows[op.key] for op in schedule.ops)):
        time_s = [row.time_s for row in chosen]
        total_s = _longest_path_s(before, time_s) + pipeline.fixed_time_s
        drawn_j, busy_s = sum(row.energy_j for row in chosen), sum(time_s)
        energy_j = drawn_j + wait_w * (schedule.stages * total_s - busy_s)
        found.append(Outcome(total_s, energy_j, drawn_j - wait_w * busy_s))
    return found


@pytest.fixture(scope="session")
def make_profile() -> Callable[..., Profile]:
    """A profile of rows (stage, chunk, kind, clock, time_s, energy_j)."""
    return _profile


@pytest.fixture(scope="session")
def make_problem() -> Callable[..., Problem]:
    """The planning problem of a job."""

    def build(job: tuple[Profile, Pipeline, Schedule]) -> Problem:
        profile, pipeline, schedule = job
        table = measured_options(profile, {op.key for op in schedule.ops})
        graph = build_graph(schedule, pipeline.p2p_time_s)
        return build_problem(schedule, graph, table, profile.metadata.wait_power_w, pipeline.fixed_time_s)

    return build


@pytest.fixture(scope="session")
def random_job() -> Callable[..., Job]:
    """A job with random options: at most `most` for each stage, chunk and kind."""

    def build(
        seed: int, *, most: int = 3, style: str = "smooth", wait_power_w: float = 80.0, **pipeline: Any
    ) -> Job:
        settings = Pipeline(**({"stages": 2, "microbatches": 2} | pipeline))
        schedule = build_schedule(settings)
        rows = _random_rows(schedule, seed, most, style)
        return Job(_profile(rows, wait_power_w), settings, schedule)

    return build


OVERLAPS = ((None, "norm"), (4, "norm"), (8, "rope"))  # SMs and launch point


def _partition_rows(schedule: Schedule, seed: int, clocks: Sequence[int]) -> list[ProfileRow]:
    """Two partitions of each operation, whole and in two nanobatches with and without overlap, and an extra."""
    chance, rows = random.Random(seed), []
    for key in sorted({op.key for op in schedule.ops}):
        for name, most in (("attention", 2.0), ("mlp", 3.0), ("embedding", 0.3)):
            size = chance.uniform(most / 2, most)
            ways = [(None, 1, "sequential", None, None)]
            if name != "embedding":
                ways = [(cut, cut, "sequential", None, None) for cut in (1, 2)]
                ways += [(2, 2, "overlapped", *one) for one in OVERLAPS]
            for cut, count, execution, sms, launch in ways:
                slower, hungrier = chance.uniform(0.7, 1.1), chance.uniform(0.7, 1.2)
                for clock in clocks:
                    time_s = size / count * (0.3 + 0.7 * 1400 / clock)
                    time_s *= slower if execution == "overlapped" else 1.0 if cut in (None, 1) else 1.05
                    rows.append(
                        ProfileRow(
                            level=Level.PARTITION,
                            stage=key.stage,
                            chunk=key.chunk,
                            op=key.kind,
                            partition=name,
                            count=count,
                            execution=execution,
                            comm_sms=sms,
                            comm_launch=launch,
                            nanobatches=cut,
                            sm_clock_mhz=clock,
                            time_s=time_s,
                            energy_j=time_s * hungrier * (90 + 250 * (clock / 1400) ** 3),
                            energy_source=EnergySource.MODEL,
                        )
                    )
    return rows


def _whole_rows(rows: Sequence[ProfileRow], factor: float) -> list[ProfileRow]:
    """Rows of whole operations: what their plain partitions take together, times a factor."""
    found: dict[tuple[Any, ...], list[ProfileRow]] = {}
    for row in rows:
        if row.execution == "sequential" and row.nanobatches in (None, 1):
            found.setdefault((row.stage, row.chunk, row.op, row.sm_clock_mhz), []).append(row)
    return [
        replace(
            parts[0],
            level=Level.OP,
            partition=None,
            nanobatches=None,
            count=1,
            time_s=factor * sum(row.count * row.time_s for row in parts),
            energy_j=factor * sum(row.count * row.energy_j for row in parts),
        )
        for parts in found.values()
    ]


@pytest.fixture(scope="session")
def partition_job() -> Callable[..., Job]:
    """A job whose operations are made of partitions, of random costs, at a few clocks.

    whole: rows of whole operations besides, so many times what their plain partitions take; none if None.
    """

    def build(
        seed: int, *, whole: float | None = None, clocks: Sequence[int] = (1000, 1200, 1400), **pipeline: Any
    ) -> Job:
        settings = Pipeline(**({"stages": 2, "microbatches": 2} | pipeline))
        schedule = build_schedule(settings)
        rows = _partition_rows(schedule, seed, clocks)
        profile = _profile([], 70.0)
        rows += [] if whole is None else _whole_rows(rows, whole)
        return Job(replace(profile, rows=tuple(rows)), settings, schedule)

    return build


@pytest.fixture(scope="session")
def enumerate_plans() -> Callable[..., list[Outcome]]:
    """Time and energy of every plan of a tiny job whose rows name stage and chunk."""
    return _enumerate


@pytest.fixture(scope="session")
def longest_path_s() -> Callable[..., float]:
    """The iteration time of a schedule for given durations, computed for the tests alone."""

    def compute(schedule: Schedule, time_s: Sequence[float], p2p_time_s: float = 0.0) -> float:
        return _longest_path_s(_predecessors(schedule, p2p_time_s), time_s)

    return compute


@pytest.fixture(scope="session")
def real_job(shared_data: Path) -> Callable[..., Job]:
    """One of the published profiles, `a100` or `a40`, at some number of microbatches; 8 stages, 1F1B."""

    def read(name: str, microbatches: int = 12) -> Job:
        stem, wait_power_w = REAL[name]
        path = shared_data / "stage-profiles" / f"{stem}.csv"
        profile = read_lowtime_csv(path, device_name=stem, wait_power_w=wait_power_w).profile
        pipeline = Pipeline(stages=8, microbatches=microbatches)
        return Job(profile, pipeline, build_schedule(pipeline))

    return read


def _make_sweep(
    layouts: Sequence[Sequence[tuple[float, float]]], max_clock_s: Sequence[float] = (), **settings: Any
) -> Sweep:
    found = []
    for number, plans in enumerate(layouts):
        layout = Layout(
            profile="tp8.parquet",
            stages=2 + number,
            chunks_per_stage=1,
            schedule="1f1b",
            microbatches=4,
            microbatch_size=1,
            tensor_parallel=8,
            context_parallel=1,
            data_parallel=1,
            layers_per_stage=(8,) * (2 + number),
        )
        points = tuple(
            SweepPoint(
                iteration_time_s=time_s,
                energy_j=energy_j,
                lower_bound_j=0.9 * energy_j,
                average_power_w=energy_j / time_s,
                peak_power_w=2 * energy_j / time_s,
            )
            for time_s, energy_j in plans
        )
        top_s = max_clock_s[number] if max_clock_s else plans[0][0]
        top_j = 1.2 * plans[0][1]
        found.append(
            PlannedLayout(layout=layout, max_clock_time_s=top_s, max_clock_energy_j=top_j, points=points)
        )
    some: dict[str, Any] = {
        "model": "llama",
        "device_name": "GPU",
        "device_kind": "simulated",
        "scope": "gpu_board",
        "global_batch": 4,
        "sequence_length": 5,
        "max_slowdown": 1.0,
    }
    return Sweep(**(some | settings), layouts=tuple(found))


@pytest.fixture(scope="session")
def make_sweep() -> Callable[..., Sweep]:
    """A sweep of layouts with these plans (time_s, energy_j), of 16, 24, 32, ... GPUs; 20 tokens an iteration."""
    return _make_sweep
