"""Helpers and guards that are killed or stopped while training goes on."""

from collections.abc import Callable
from typing import Any

import pytest

Eventually = Callable[[Callable[[], bool]], None]
OneLine = Callable[..., None]

KILL_HELPER = "os.kill(session.open()._helper.pid, signal.SIGKILL)"
GO_ON = (
    "if iteration == 6: print('waits', flush=True)\n"
    "while iteration == 6 and not os.path.exists(GO): session.step(); time.sleep(0.01)"
)
"""Training waits, step after step, until the test has seen what it wants to."""

KILL_GUARD = "os.kill(child_of(session.open()._helper.pid), signal.SIGKILL)"


@pytest.mark.parametrize(
    "who", [KILL_HELPER, f"{KILL_GUARD}; {KILL_HELPER}"], ids=["helper", "helper and guard"]
)
def test_a_helper_that_is_killed(trainer: Any, one_line: OneLine, eventually: Eventually, who: str) -> None:
    """Its guard gives the board back while training goes on; where that was killed too, another helper does."""
    run = trainer.start(iterations=10, during=f"if iteration == 5: {who}\n{GO_ON}")
    run.wait_for("waits")
    eventually(trainer.as_found)
    assert run.process.poll() is None, "training goes on"
    sets = len(trainer.sets())
    (trainer.folder / "go").touch()
    run.survived()
    assert len(trainer.sets()) == sets
    one_line(run, "the process that sets clocks has ended (exit code -9)", "training goes on without a plan")
    assert trainer.as_found()


def test_a_guard_that_is_killed(trainer: Any, eventually: Eventually) -> None:
    """The next set brings another, so that the helper may be killed as well."""
    hurt = (
        "if iteration == 3:\n"
        f"    guard = child_of(session.open()._helper.pid); {KILL_GUARD}\n"
        "    while child_of(session.open()._helper.pid) in (None, guard):\n"
        "        for kind in ('forward', 'backward'): session.begin(kind, 0); time.sleep(0.01)\n"
        f"if iteration == 5: {KILL_HELPER}\n"
    )
    run = trainer.start(iterations=10, during=hurt + GO_ON)
    run.wait_for("waits")
    eventually(trainer.as_found)
    (trainer.folder / "go").touch()
    run.survived()
    assert "exit code -9" in run.said[-1]


def test_a_helper_that_is_stopped_is_killed_in_the_end(
    trainer: Any, one_line: OneLine, eventually: Eventually
) -> None:
    """SIGSTOP, as a driver that never answers: training is not held up, and leaves it to the guard."""
    run = trainer.start(
        before="import energyopt.applier.runtime.helper_process as h; h._END_LIMIT_S = 0.5",
        during="if iteration == 3: os.kill(session.open()._helper.pid, signal.SIGSTOP)",
    )
    run.survived()
    one_line(run, "did not end and was killed", "energyopt doctor")
    eventually(trainer.as_found)


def test_standard_error_is_closed(trainer: Any) -> None:
    """By the job's script, before Python starts; nothing that is opened later may take its number."""
    trainer.board.name = "NVIDIA H100 80GB HBM3"
    code = "import os, sys; os.close(2); sys.stderr = None"
    run = trainer.start(before=code, during="assert not os.path.exists('/proc/self/fd/2')")
    run.survived()
    assert run.said == []
    assert run.out == [run.expected], "nor does it go to standard output"
