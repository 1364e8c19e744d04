"""Real training jobs with the shim in them, each rank on a fake board of its own."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, groupby
from pathlib import Path
from typing import Any

import pytest

from energyopt.planner.schedules.registry import build_schedule
from energyopt.planner.schedules.torch_csv import read_torch_csv
from energyopt.schemas.ops import OpKind, Schedule
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Plan, write_plan
from energyopt.schemas.planned_ops import PlannedOp

ATTEMPTS = 3
LIMIT_S = 180.0  # for a machine that is busy with other things; a job takes a few seconds
NODE = Path(__file__).with_name("node.py")
CLOCKS_MHZ = (
    1410,
    1200,
    1305,
    900,
    1395,
    1005,
    1110,
)  # a prime number of them: they meet every kind of operation
WHERE = ("chunk", "microbatch", "backward_chunk", "backward_microbatch")


@dataclass(frozen=True, kw_only=True)
class Rank:
    """What one rank computed, said and recorded, and what its board was asked for by the board's own log."""

    result: dict[str, Any]
    said: str
    shard: list[dict[str, Any]]
    dropped: int
    set_mhz: list[int]
    given_back: bool


class Jobs:
    """Runs jobs in forks of one process that has loaded the frameworks."""

    def __init__(self) -> None:
        self.node = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(NODE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._answer()

    def start(self, job: str, world: int, out: Path, arguments: Sequence[str], env: dict[str, str]) -> None:
        out.mkdir(parents=True)
        order = {"job": job, "world": world, "arguments": arguments, "environment": env, "out": str(out)}
        assert self.node.stdin is not None
        self.node.stdin.write(json.dumps(order) + "\n")
        self.node.stdin.flush()

    def codes(self) -> list[int]:
        """The ranks' exit codes, when all have ended."""
        found: list[int] = json.loads(self._answer())
        return found

    def _answer(self) -> str:
        assert self.node.stdout is not None
        assert select.select([self.node.stdout], [], [], LIMIT_S)[0], "the job does not end"
        return self.node.stdout.readline()

    def close(self) -> None:
        os.killpg(self.node.pid, signal.SIGKILL)
        self.node.communicate()


@pytest.fixture(scope="session")
def jobs() -> Iterator[Jobs]:
    jobs = Jobs()
    yield jobs
    jobs.close()


class Bench:
    """Runs one job plainly, and with a plan on fake boards."""

    def __init__(self, jobs: Jobs, folder: Path, fake: Any) -> None:
        self.jobs, self.folder, self.fake = jobs, folder, fake

    def plain(self, job: str, world: int, *arguments: str) -> list[dict[str, Any]]:
        """What each rank computes without the shim."""
        out = self.folder / "plain"
        self.jobs.start(job, world, out, arguments, {})
        assert self.jobs.codes() == [0] * world, (out / "rank-0.err").read_text()
        return [result(out, rank) for rank in range(world)]

    def planned(self, job: str, plan: Plan, *arguments: str, **settings: str) -> list[Rank]:
        """The same with the shim, every iteration recorded.

        On a machine that is so busy that a helper sleeps through an operation, its request is overtaken, as it
        should be; the shard says so, and the job is run again.
        """
        return self._until(
            lambda _, rank: not rank.dropped, job, plan, arguments=arguments, settings=settings
        )

    def planned_in_time(self, job: str, plan: Plan, *arguments: str) -> list[Rank]:
        """The same, run again where a request came after its operation too."""
        return self._until(
            lambda stage, rank: not rank.dropped and not _late(plan, stage, rank),
            job,
            plan,
            arguments=arguments,
        )

    def _until(
        self,
        fine: Callable[[int, Rank], bool],
        job: str,
        plan: Plan,
        *,
        arguments: Sequence[str],
        settings: dict[str, str] | None = None,
    ) -> list[Rank]:
        for attempt in range(ATTEMPTS):
            ranks = self._planned(job, plan, attempt, arguments, settings or {})
            if all(fine(stage, rank) for stage, rank in enumerate(ranks)):
                break
        return ranks

    def _planned(
        self, job: str, plan: Plan, attempt: int, arguments: Sequence[str], settings: dict[str, str]
    ) -> list[Rank]:
        world, out = plan.pipeline.stages, self.folder / f"planned-{attempt}"
        self.fake.log.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "tele", ignore_errors=True)
        self.jobs.start(job, world, out, arguments, self.environment(plan, **settings))
        assert self.jobs.codes() == [0] * world, (out / "rank-0.err").read_text()
        return [self.rank(out, rank) for rank in range(world)]

    def environment(self, plan: Plan, **settings: str) -> dict[str, str]:
        write_plan(self.folder / "plan.json", plan)
        given = {"PLAN": self.folder / "plan.json", "TELEMETRY": self.folder / "tele", "SAMPLE_EVERY": 1}
        found = {f"ENERGYOPT_{name}": str(value) for name, value in (given | settings).items()}
        driver = {name: self.fake.env[name] for name in (*self.fake.variables, "LD_LIBRARY_PATH")}
        return found | driver | {"ENERGYOPT_STATE_DIR": str(self.folder / "state")}

    def rank(self, out: Path, rank: int) -> Rank:
        board = self.fake.boards[rank]
        calls = [call for call in self.fake.calls() if call.uuid == board.uuid]
        lines = (self.folder / "tele" / f"rank{rank}.jsonl").read_text().splitlines()
        shard = [json.loads(line) for line in lines]
        return Rank(
            result=result(out, rank),
            said=(out / f"rank-{rank}.err").read_text(),
            shard=shard,
            dropped=sum(line.get("dropped_requests", 0) for line in shard),
            set_mhz=[call.arguments[0] for call in calls if call.call == "set_locked_clocks"],
            given_back=board.lock_mhz is None and (not calls or calls[-1].call == "reset_locked_clocks"),
        )


def result(out: Path, rank: int) -> dict[str, Any]:
    """A rank's own file; the torch job writes it into a folder for each schedule."""
    (path,) = out.glob(f"**/rank-{rank}.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.fixture
def bench(jobs: Jobs, tmp_path: Path, make_fake_nvml: Callable[..., Any]) -> Bench:
    return Bench(jobs, tmp_path, make_fake_nvml(4))


def plan_for(schedule: Schedule, pipeline: Pipeline) -> Plan:
    """A plan in which neighbouring operations have different clocks.

    A backward for the weights, for which these jobs have no steady duration, has that of the one before it.
    """
    clocks = cycle(CLOCKS_MHZ)
    stages = []
    for order in schedule.orders:
        ops: list[PlannedOp] = []
        for op in order:
            clock = ops[-1].sm_clock_mhz if op.kind is OpKind.BACKWARD_WEIGHT else next(clocks)
            where = {name: getattr(op, name) for name in WHERE}
            ops.append(PlannedOp(op=op.kind, sm_clock_mhz=clock, **where))
        stages.append(tuple(ops))
    return Plan(
        profile_sha256=None,
        device_name="NVIDIA A100-SXM4-80GB",
        device_kind="nvml",
        pipeline=pipeline,
        gpus=pipeline.stages,
        predicted=None,
        max_clock=None,
        best_single_clock=None,
        stages=tuple(stages),
    )


@pytest.fixture
def named_plan() -> Callable[..., Plan]:
    """A plan for a schedule by its name."""

    def make(schedule: str, stages: int, microbatches: int, chunks: int = 1) -> Plan:
        pipeline = Pipeline(
            stages=stages, microbatches=microbatches, schedule=schedule, chunks_per_stage=chunks
        )
        return plan_for(build_schedule(pipeline), pipeline)

    return make


@pytest.fixture
def csv_plan() -> Callable[[Path], Plan]:
    """A plan for a schedule that PyTorch has printed."""

    def make(path: Path) -> Plan:
        schedule = read_torch_csv(path)
        pipeline = Pipeline(
            stages=schedule.stages,
            microbatches=schedule.microbatches,
            schedule=f"csv:{path.name}",
            chunks_per_stage=schedule.chunks_per_stage,
        )
        return plan_for(schedule, pipeline)

    return make


def _asked_in(plan: Plan, stage: int, shard: list[dict[str, Any]]) -> list[int | None]:
    safe_mhz = max(op.sm_clock_mhz for op in plan.stages[stage])
    found: list[int | None] = []
    for line in shard:
        if "iteration" in line:
            found += [op[3] for op in sorted(line["ops"], key=lambda op: op[0])]
            found.append(safe_mhz)
    return [clock for clock, _ in groupby(found)]


def _late(plan: Plan, stage: int, rank: Rank) -> bool:
    """Whether the board was asked for a clock that no operation had while it ran."""
    asked = _asked_in(plan, stage, rank.shard)
    return asked != rank.set_mhz[: len(asked)]


@pytest.fixture
def asked_in() -> Callable[[Plan, int, list[dict[str, Any]]], list[int | None]]:
    """What a shard says was asked for in its iterations, as the board's own log would have it: changes alone.

    The safe clock, asked for after the last operation, is not in it and is put there.
    """
    return _asked_in


@pytest.fixture
def clocks_of() -> Callable[[Plan, int, int], list[int]]:
    """What a board should be asked for in each iteration: the operations' clocks in order, then the safe one."""

    def expected(plan: Plan, stage: int, iterations: int) -> list[int]:
        once = [op.sm_clock_mhz for op in plan.stages[stage]]
        return [clock for clock, _ in groupby([*once, max(once)] * iterations)]

    return expected
