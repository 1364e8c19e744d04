import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from energyopt.applier.guard.owner import owner_from, start_ticks, this_process
from energyopt.schemas.nodes import Node


def test_this_process_is_alive_and_a_recycled_number_is_not() -> None:
    me = this_process()
    assert me.pid == os.getpid()
    assert me.alive()
    assert me.start_ticks is not None
    assert not replace(me, start_ticks=me.start_ticks + 1).alive()


def test_a_process_that_has_ended_is_not_alive_even_before_it_is_reaped() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        owner = replace(this_process(), pid=child.pid, start_ticks=start_ticks(child.pid))
        assert owner.alive()
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not owner.alive()


def test_a_process_of_another_container_counts_as_alive() -> None:
    """Its number means nothing here."""
    assert replace(this_process(), pid_namespace="pid:[1]", pid=2**22 + 1, start_ticks=1).alive()


def test_the_start_is_the_kernels_own_figure() -> None:
    """Boot time plus start, from /proc/stat and the figure, is between the interpreter's start and now."""
    boot_s = next(
        int(line.split()[1])
        for line in Path("/proc/stat").read_text(encoding="ascii").splitlines()
        if line.startswith("btime")
    )
    found = start_ticks(os.getpid())
    assert found is not None
    started_s = boot_s + found / os.sysconf("SC_CLK_TCK")
    assert abs(started_s - Path("/proc/self").stat().st_ctime) < 60


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["/venv/bin/energyopt", "profile", "secret"], "energyopt profile"),
        (["train.py", "--token=secret"], "train.py"),
        ([], "python"),
    ],
)
def test_the_command_is_told_without_what_may_be_secret(
    words: list[str], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", words)
    assert this_process().command == command


def test_json_round_trip() -> None:
    me = this_process()
    assert owner_from(Node("file", "$", me.to_json())) == me
