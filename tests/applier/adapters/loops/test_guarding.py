"""What an adapter does never raises into a training run; what the run raises itself passes."""

from contextlib import contextmanager

import pytest

from energyopt.applier.adapters.guarding import QUIETLY, quiet_block
from energyopt.applier.adapters.loops import Loop, operation


def test_an_error_of_ours_is_said_once(capsys: pytest.CaptureFixture[str], swallowed) -> None:
    for _ in range(3):
        with QUIETLY:
            raise ZeroDivisionError("of ours")
    said = capsys.readouterr().err
    assert swallowed.pop().said
    assert said.count("ZeroDivisionError: of ours; training goes on") == 1


def test_an_interrupt_is_not_held_up() -> None:
    with pytest.raises(KeyboardInterrupt), QUIETLY:
        raise KeyboardInterrupt


def test_a_block_that_fails_lets_the_work_in_it_run(swallowed) -> None:
    @contextmanager
    def block(where: str):
        assert where != "entering"
        try:
            yield
        finally:
            assert where != "leaving"

    done = []
    for where in ("entering", "leaving", "nowhere"):
        with quiet_block(lambda where=where: block(where)):
            done.append(where)
        with pytest.raises(OSError, match="of the run"), quiet_block(lambda where=where: block(where)):
            raise OSError("of the run")
    assert done == ["entering", "leaving", "nowhere"]
    assert len(swallowed.pop().said) == 1


def test_a_loop_whose_hooks_fail_goes_on(broken_hooks, swallowed) -> None:
    loop, hooks = Loop(), broken_hooks
    for _ in range(2):
        loop.end(loop.forward(hooks, dict, lambda: 1))
        loop.end(loop.backward())
        loop.end(loop.optimizer())
        with loop.evaluation(hooks, dict):
            pass
    loop.stop()
    assert swallowed.pop().said == (
        "an adapter left out what it could not tell: TypeError: no iteration; training goes on",
    )


def test_a_method_runs_whatever_is_told_of_it(swallowed) -> None:
    def fails(owner):
        raise TypeError(owner)

    assert operation(fails, lambda _owner, one: one + 1, fails)(object(), 2) == 3
    assert swallowed.pop().said
