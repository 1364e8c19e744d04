"""However training ends, the board stands as found."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from energyopt.schemas.plan import Plan, write_plan

Eventually = Callable[[Callable[[], bool]], None]


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", -15), ("SIGINT", -2), ("SIGKILL", -9)])
def test_a_signal_in_the_middle_of_a_step(trainer: Any, eventually: Eventually, name: str, code: int) -> None:
    run = trainer.start(iterations=10_000, during="print('step', flush=True)")
    run.wait_for("step", times=4)
    run.process.send_signal(getattr(signal, name))
    assert run.end() == code
    eventually(trainer.as_found)
    assert trainer.sets()


def test_os_exit(trainer: Any, eventually: Eventually) -> None:
    run = trainer.start(during="if iteration == 3: os._exit(5)")
    assert run.end() == 5
    eventually(trainer.as_found)
    assert trainer.sets()


def test_an_exception_in_training_is_its_own(trainer: Any) -> None:
    run = trainer.start(during="if iteration == 3: raise ValueError('bad batch')")
    assert run.end() == 1
    assert run.said[-1] == "ValueError: bad batch"
    assert trainer.as_found(), "given back before the process has ended"


def test_a_worker_that_outlives_training(trainer: Any, eventually: Eventually) -> None:
    """A data loader that hangs has copies of all that its parent had open."""
    fork = (
        "if iteration == 2:\n"
        "    worker = os.fork()\n"
        "    if worker == 0: time.sleep(600)\n"
        "    print('worker', worker, flush=True)"
    )
    run = trainer.start(iterations=10_000, during=fork)
    worker = int(run.wait_for("worker"))
    try:
        run.process.kill()
        run.process.wait(60)
        eventually(trainer.as_found)
        os.kill(worker, 0)
    finally:
        os.kill(worker, signal.SIGKILL)
    again = trainer.start(iterations=2)
    again.survived()
    assert again.said == [], "nor does the worker hold the board"


def test_a_worker_that_ends_changes_nothing(trainer: Any) -> None:
    """It leaves as Python does, through what is registered for that."""
    fork = (
        "if iteration == 2:\n"
        "    worker = os.fork()\n"
        "    if worker == 0: session.step(); sys.exit(0)\n"
        "    os.waitpid(worker, 0)"
    )
    run = trainer.start(iterations=5, op_s=0.02, during=fork)
    run.survived()
    assert run.said == []
    assert [c.call for c in trainer.fake.calls()].count("reset_locked_clocks") == 1
    assert trainer.as_found()


def test_two_sessions_one_after_the_other(trainer: Any, make_plan: Callable[..., Plan]) -> None:
    write_plan(trainer.plan, make_plan())
    run = trainer.start(
        after=f"session.close(); session = open_session({str(trainer.plan)!r}); session.step(); "
        "session.begin('forward', 0); time.sleep(0.3); session.close()"
    )
    run.survived()
    assert run.said == []
    assert trainer.sets()[-1] == 1305
    assert trainer.as_found()
