"""Small training runs in processes of their own, with real helpers and guards, on the fake NVML library."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from energyopt.schemas.plan import Plan, write_plan

LIMIT_S = 120.0  # for a machine that is busy with other things

TRAIN = """
import json, os, resource, signal, sys, time
{before}
from energyopt.applier import open_session


def child_of(pid):
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = open(f"/proc/{{name}}/stat").read()
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == pid:
            return int(name)


GO = {go!r}
session = open_session({plan!r})
total = 0
for iteration in range({iterations}):
    session.step({step})
    for microbatch in range({microbatches}):
        for kind in ("forward", "backward"):
            with session.op(kind, microbatch):
                time.sleep({op_s})
                total += iteration * microbatch
    {during}
{after}
print("total", total, flush=True)
"""
"""Plain Python that trains: what it computes is known, and no part of it depends on the shim."""


@dataclass(kw_only=True)
class Training:
    """One training process."""

    process: "subprocess.Popen[bytes]"
    expected: str
    folder: Path

    @property
    def out(self) -> list[str]:
        """Its standard output so far, line by line."""
        return (self.folder / "out").read_text().splitlines()

    @property
    def said(self) -> list[str]:
        """Its standard error so far, line by line."""
        return (self.folder / "err").read_text().splitlines()

    def end(self) -> int:
        """Wait for it; its exit code."""
        return self.process.wait(LIMIT_S)

    def wait_for(self, word: str, times: int = 1) -> str:
        """Wait until it has said so many lines that start with a word; the rest of the last."""
        deadline = time.monotonic() + LIMIT_S
        while len(found := [line for line in self.out if line.startswith(word)]) < times:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, f"it has not said {word}"
            time.sleep(0.005)
        return found[-1][len(word) :].strip()

    def survived(self) -> None:
        """It ran to its end with the right result."""
        code = self.end()
        assert code == 0, self.said
        assert self.out[-1:] == [self.expected]


@dataclass(kw_only=True)
class Trainer:
    """Starts training runs on the first board of a fake driver."""

    folder: Path
    fake: Any
    plan: Path
    state: Path
    started: list[Training] = field(default_factory=list)

    def start(
        self,
        *,
        iterations: int = 6,
        op_s: float = 0.005,
        microbatches: int = 3,
        step: str = "",
        before: str = "",
        during: str = "pass",
        after: str = "",
        **env: str,
    ) -> Training:
        code = TRAIN.format(
            plan=str(self.plan),
            go=str(self.folder / "go"),
            iterations=iterations,
            microbatches=microbatches,
            op_s=op_s,
            step=step,
            before=before,
            during=during.replace("\n", "\n    "),
            after=after,
        )
        folder = self.folder / f"run{len(self.started)}"
        folder.mkdir()
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdout=out,
                stderr=err,
                env=self.fake.env | {"ENERGYOPT_STATE_DIR": str(self.state)} | env,
            )
        total = 2 * sum(range(iterations)) * sum(range(microbatches))
        self.started.append(Training(process=process, expected=f"total {total}", folder=folder))
        return self.started[-1]

    @property
    def board(self) -> Any:
        return self.fake.boards[0]

    def sets(self) -> list[int]:
        """The clocks that were set, in order."""
        return [c.arguments[0] for c in self.fake.calls() if c.call == "set_locked_clocks" and c.code == 0]

    def as_found(self) -> bool:
        """Whether the board stands as before, and nothing is journaled."""
        return self.board.lock_mhz is None and not list(self.state.glob("*.json"))

    def shard(self, name: str = "rank0.jsonl") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "tele" / name).read_text().splitlines()]


@pytest.fixture
def trainer(tmp_path: Path, fake_nvml: Any, make_plan: Callable[..., Plan]) -> Iterator[Trainer]:
    plan = tmp_path / "plan.json"
    write_plan(plan, make_plan())
    trainer = Trainer(folder=tmp_path, fake=fake_nvml, plan=plan, state=tmp_path / "state")
    yield trainer
    for one in trainer.started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait(LIMIT_S)


@pytest.fixture
def one_line() -> Callable[..., None]:
    """`one_line(run, "these", "words")`: it said one thing, and all of them are there."""

    def check(run: Training, *words: str) -> None:
        (line,) = run.said
        assert line.startswith("energyopt: rank 0: ")
        assert [word for word in words if word not in line] == [], line

    return check
