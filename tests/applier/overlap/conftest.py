"""Two ranks of torch.distributed, each a process of its own."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

LIMIT_S = 120.0


@pytest.fixture(scope="module")
def two_ranks() -> Callable[..., list[str]]:
    """Run a script of this folder on both, as SCRIPT RANK OUT PORT ...; what each said."""

    def run(script: str, outs: Sequence[Path], *arguments: str, **environment: str) -> list[str]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        path = str(Path(__file__).with_name(script))
        started = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", path, str(rank), str(out), port, *arguments],
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | environment,
            )
            for rank, out in enumerate(outs)
        ]
        try:
            said = [one.communicate(timeout=LIMIT_S)[1] for one in started]
        finally:
            for one in started:
                one.kill()
        assert [one.returncode for one in started] == [0, 0], said
        return said

    return run
