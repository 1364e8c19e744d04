"""Where hooks go in, and what they leave as it was."""

import gc
import sys
from contextlib import suppress
from importlib.util import LazyLoader, module_from_spec, spec_from_file_location
from inspect import getclosurevars
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from energyopt.applier.adapters.megatron import ADAPTER


def test_functions_that_were_imported_by_name_are_hooked(
    newest: Any, hooks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = ModuleType("a_users_module")
    user.step, user.run = newest.module.forward_step, newest.module.forward_backward_no_pipelining  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, user.__name__, user)
    ADAPTER.install(newest.module, hooks)
    assert user.step is newest.module.forward_step
    model = SimpleNamespace(config=SimpleNamespace())
    user.run(forward_step_func=None, data_iterator=None, model=[model], num_microbatches=3)
    assert len(hooks.iterations[0]["ops"]) == 12


def test_a_lazy_module_is_not_imported_by_the_search(
    newest: Any, hooks: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "lazy.py"
    path.write_text("raise RuntimeError('imported')\n")
    spec = spec_from_file_location("lazy", path)
    assert spec is not None and spec.loader is not None
    spec.loader = LazyLoader(spec.loader)
    lazy = module_from_spec(spec)
    spec.loader.exec_module(lazy)
    monkeypatch.setitem(sys.modules, "lazy", lazy)
    ADAPTER.install(newest.module, hooks)


def test_a_second_install_changes_nothing(newest: Any, hooks: Any) -> None:
    ADAPTER.install(newest.module, hooks)
    before = vars(newest.module).copy()
    ADAPTER.install(newest.module, hooks)
    assert vars(newest.module) == before
    newest.iterate(1)
    assert len(hooks.iterations) == 1
    assert len(hooks.iterations[0]["ops"]) == 4


def test_wrappers_look_like_the_functions(newest: Any, hooks: Any) -> None:
    original = newest.module.forward_step
    ADAPTER.install(newest.module, hooks)
    assert newest.module.forward_step.__wrapped__ is original
    assert newest.module.forward_step.__name__ == "forward_step"


def test_steps_outside_of_an_iteration_and_in_an_evaluation_pass_unseen(newest: Any, hooks: Any) -> None:
    ADAPTER.install(newest.module, hooks)
    output = newest.forward(0, 0)
    newest.module.backward_step(None, output, None, None, None)
    newest.iterate(2, forward_only=True)
    assert [iteration["training"] for iteration in hooks.iterations] == [False]
    assert not hooks.iterations[0]["ops"]


def test_an_output_that_no_forward_returned_has_no_backward(newest: Any, hooks: Any) -> None:
    newest.run = lambda *_, **__: newest.module.backward_step(None, object(), None, None, None)
    ADAPTER.install(newest.module, hooks)
    newest.iterate()
    assert hooks.iterations[0]["ops"] == []


def test_what_is_wrong_with_a_call_is_the_schedules_to_say(newest: Any, hooks: Any) -> None:
    ADAPTER.install(newest.module, hooks)
    with pytest.raises(TypeError, match="num_microbatches"):
        newest.module.forward_backward_no_pipelining(forward_step_func=None, data_iterator=None, model=None)
    assert not hooks.iterations


@pytest.mark.parametrize("failure", [StopIteration("out of data"), RuntimeError("lost"), KeyboardInterrupt()])
def test_failures_in_a_step_pass_and_the_next_iteration_is_whole(
    newest: Any, hooks: Any, failure: BaseException
) -> None:
    """`StopIteration` is what a user's data iterator raises at its end."""
    good, step = newest.run, newest.step

    def fail(*_: Any, **__: Any) -> None:
        raise failure

    def fail_in_the_second(*_: Any, **__: Any) -> None:
        newest.forward(0, 0)
        newest.step = fail
        newest.forward(1, 0)

    ADAPTER.install(newest.module, hooks)
    newest.run = fail_in_the_second
    with pytest.raises(type(failure)) as caught:
        newest.iterate()
    assert caught.value is failure
    newest.run, newest.step = good, step
    newest.iterate(1)
    assert hooks.open == 0
    assert hooks.iterations[0]["ops"] == [["forward", 0, 0], ["forward", 1, 0]]
    assert len(hooks.iterations[1]["ops"]) == 4


def test_ten_thousand_iterations_leave_nothing_behind(newest: Any, hooks: Any) -> None:
    """Trainings, evaluations, and iterations that fail after a forward."""

    def fail(*_: Any, **__: Any) -> None:
        newest.forward(0, 0)
        raise RuntimeError

    ADAPTER.install(newest.module, hooks)
    steps = getclosurevars(newest.module.backward_step).nonlocals["steps"]
    good, blocks = newest.run, []
    for turn in range(10_000):
        newest.run = fail if turn % 10 == 9 else good
        with suppress(RuntimeError):
            newest.iterate(1, forward_only=turn % 10 == 4)
        hooks.iterations.clear()
        assert not steps.places
        if turn in {999, 9999}:
            gc.collect()
            blocks.append(sys.getallocatedblocks())
    assert blocks[1] - blocks[0] < 100  # one for each iteration that failed would be 900


def test_hooks_that_fail_do_not_reach_the_training(newest: Any, broken_hooks: Any, swallowed: Any) -> None:
    ADAPTER.install(newest.module, broken_hooks)
    assert newest.iterate() == "data"
    assert swallowed.pop().said


def test_arguments_that_cannot_be_read_do_not_reach_the_training(
    newest: Any, hooks: Any, torch: Any, swallowed: Any
) -> None:
    class Odd:
        """Its truth cannot be told, as an array's cannot."""

        def __bool__(self) -> bool:
            raise ValueError

    def run(*_: Any, **__: Any) -> None:
        newest.forward(0, Odd())

    newest.run = run
    del torch.cuda.is_current_stream_capturing
    ADAPTER.install(newest.module, hooks)
    assert newest.iterate() == "data"
    assert swallowed.pop().said
