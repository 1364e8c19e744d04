"""Runs of several real ranks on fake boards."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

LIMIT_S = 120.0  # for a machine that is busy with other things
NODE = Path(__file__).with_name("node.py")
QUICK = ("--windows", "2", "--warm-up-s", "0.02", "--soak-s", "0", "--no-early-stop")


def eventually(holds: Callable[[], Any]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.01)


@dataclass(kw_only=True)
class Node:
    """Two fake boards or more, and what runs on them.

    folder: of the outputs; `output` is what the runs write.
    """

    fake: Any
    folder: Path
    server: "subprocess.Popen[str]"
    started: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.output = self.folder / "profile.parquet"

    def start(self, size: int, workload: str | Path, *arguments: str, **changes: Any) -> None:
        """Start ranks without a launcher that would stop the others when one fails.

        `changes`: what is different in the environment of one rank, as in `rank1={"A": "b"}`.
        """
        for name in ("pids.json", "codes.json"):
            (self.folder / name).unlink(missing_ok=True)
        shared = self.environment | {
            "WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": _port(),
        }
        environments = [
            shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} | changes.get(f"rank{rank}", {})
            for rank in range(size)
        ]
        order = {
            "folder": str(self.folder),
            "arguments": self.words(workload, *arguments),
            "environments": environments,
        }
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(order) + "\n")
        self.server.stdin.flush()
        eventually((self.folder / "pids.json").exists)
        self.started = self.pids

    @property
    def environment(self) -> dict[str, str]:
        """What all ranks have besides the server's own."""
        variables: dict[str, str] = self.fake.variables
        return variables | {"ENERGYOPT_STATE_DIR": str(self.folder / "state"), "OMP_NUM_THREADS": "1"}

    def words(self, workload: str | Path, *arguments: str) -> list[str]:
        """The command line of every rank."""
        where = () if "--device" in arguments else ("--kernels-on", "cpu")
        fixed = ("--clocks", "1410,1200", *QUICK, *where)
        return ["profile", str(workload), "-o", str(self.output), *fixed, *arguments]

    @property
    def pids(self) -> list[int]:
        """Of the ranks, in order."""
        found: list[int] = json.loads((self.folder / "pids.json").read_text())
        return found

    def codes(self) -> list[int]:
        """The exit codes, when all ranks have ended; negative for a signal."""
        eventually((self.folder / "codes.json").exists)
        for rank in range(len(self.started)):
            print(f"rank {rank}:\n{self.said(rank)}")  # shown where a test fails
        self.started = []
        found: list[int] = json.loads((self.folder / "codes.json").read_text())
        return found

    def said(self, rank: int) -> str:
        """What a rank printed."""
        return (self.folder / f"rank{rank}.out").read_text()

    def windows(self, rank: int) -> int:
        """How many windows a rank has measured so far."""
        path = self.folder / f"profile.rank{rank}.parquet.partial"
        return path.read_text().count('"kind":"window"') if path.exists() else 0

    def await_windows(self, count: int) -> None:
        """Wait until each rank has measured so many."""
        done = self.folder / "codes.json"
        eventually(lambda: done.exists() or min(map(self.windows, range(len(self.started)))) >= count)
        assert not done.exists(), [self.said(rank) for rank in range(len(self.started))]

    def given_back(self) -> bool:
        """Whether no board is locked and none is owed."""
        state = self.folder / "state"
        return all(board.lock_mhz is None for board in self.fake.boards) and not list(state.glob("*.json"))

    def stop(self) -> None:
        """End what a failed test has left."""
        for pid in self.started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


@pytest.fixture(scope="session")
def server(fake_boards: ModuleType, fake_nvml_folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process with torch imported that forks ranks; skips where there is no torch."""
    if find_spec("torch") is None:
        pytest.skip("torch is not installed")
    library = fake_boards.build(fake_nvml_folder)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    with subprocess.Popen(
        [sys.executable, str(NODE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def make_node(
    server: "subprocess.Popen[str]", make_fake_nvml: Callable[..., Any], tmp_path: Path
) -> Iterator[Callable[..., Node]]:
    """`make_node(3)`: three boards; the second draws less than the first, and so on."""
    made: list[Node] = []

    def make(boards: int = 2) -> Node:
        fake = make_fake_nvml(boards)
        for number, board in enumerate(fake.boards):
            board.tick_s, board.load = 0.004, 1.0 / (1 + number)
        made.append(Node(fake=fake, folder=tmp_path, server=server))
        return made[-1]

    yield make
    for node in made:
        node.stop()


@pytest.fixture(name="eventually")
def eventually_fixture() -> Callable[[Callable[[], Any]], None]:
    """Wait until something holds."""
    return eventually


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A small transformer's file."""
    path = tmp_path / "tiny.toml"
    path.write_text(
        "hidden_size = 64\nnum_hidden_layers = 2\nnum_attention_heads = 4\nnum_key_value_heads = 4\n"
        "intermediate_size = 128\nvocab_size = 128\n"
        '[job]\nmicrobatch_size = 1\nsequence_length = 64\ndtype = "float32"\n'
    )
    return path
