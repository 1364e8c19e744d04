"""The adapter in one process that holds all stages."""

import gc
import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from energyopt.applier.adapters.registry import adapter_for
from energyopt.planner.schedules.torch_csv import read_torch_csv
from energyopt.schemas.ops import OpKind

torch = pytest.importorskip("torch")

MODULE = "torch.distributed.pipelining.schedules"
MICROBATCHES = 4


class NoHooks:
    """What a Session is when it is off."""

    def iteration(self, *_: Any, **__: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def begin(self, *_: Any) -> None: ...

    def end(self) -> None: ...


def _stages(count: int, **options: Any) -> list[Any]:
    from torch.distributed.pipelining import PipelineStage

    cpu = torch.device("cpu")
    return [PipelineStage(torch.nn.Linear(4, 4), place, count, cpu, **options) for place in range(count)]


def _step(schedule: Any, microbatches: int = MICROBATCHES) -> None:
    batch = torch.ones(microbatches, 4)
    schedule.step(batch, target=batch)


def _loss(output: Any, target: Any) -> Any:
    return ((output - target) ** 2).mean()


def _ops(recorder: Any, iteration: int = -1) -> list[Any]:
    return list(recorder.iterations[iteration]["ops"])


def _kinds(recorder: Any, iteration: int = -1) -> list[OpKind]:
    return [op[0] for op in _ops(recorder, iteration)]


@pytest.mark.usefixtures("one_rank")
def test_the_loss_is_part_of_the_forward(hooked: Any, recorder: Any) -> None:
    begun: list[bool] = []

    def loss(output: Any, target: Any) -> Any:
        begun.append(recorder.begun)
        return _loss(output, target)

    _step(hooked.ScheduleGPipe(_stages(1)[0], MICROBATCHES, loss_fn=loss))
    assert begun.count(True) == MICROBATCHES  # a first run on no data, to learn shapes, is no operation
    assert _kinds(recorder) == [OpKind.FORWARD] * MICROBATCHES + [OpKind.BACKWARD] * MICROBATCHES


@pytest.mark.usefixtures("one_rank")
def test_a_second_installation_changes_nothing(hooked: Any, recorder: Any) -> None:
    adapter_for(MODULE).install(hooked, NoHooks())
    _step(hooked.Schedule1F1B(_stages(1)[0], MICROBATCHES, loss_fn=_loss))
    assert len(recorder.iterations) == 1
    assert len(_ops(recorder)) == 2 * MICROBATCHES


@pytest.mark.usefixtures("one_rank")
def test_errors_of_training_pass_and_leave_nothing_behind(hooked: Any, recorder: Any) -> None:
    error = ZeroDivisionError("of the user's own")
    failing = [False]

    def loss(output: Any, target: Any) -> Any:
        if failing[0]:
            raise error
        return _loss(output, target)

    schedule = hooked.Schedule1F1B(_stages(1)[0], MICROBATCHES, loss_fn=loss)
    _step(schedule)
    failing[0] = True
    with pytest.raises(ZeroDivisionError) as caught:
        _step(schedule)
    assert caught.value is error
    assert _ops(recorder) == [["forward", 0, 0, None, None]]
    failing[0] = False
    schedule._internal_losses.clear()  # PyTorch keeps what the failed step left
    _step(schedule)
    assert _ops(recorder) == _ops(recorder, 0)


@pytest.mark.usefixtures("one_rank")
def test_a_forward_that_fails_is_ended(hooked: Any, recorder: Any) -> None:
    stage = _stages(2)[0]
    _step(schedule := hooked.ScheduleLoopedBFS(_stages(2), MICROBATCHES, loss_fn=_loss))
    with pytest.raises(RuntimeError, match="failed to run forward"):  # PyTorch's own text
        schedule.step(torch.ones(MICROBATCHES, 5), target=torch.ones(MICROBATCHES, 4))
    assert _ops(recorder) == [["forward", 0, 0, None, None]]
    assert not recorder.begun
    stage.has_backward = True
    stage.forward_one_chunk(0, (torch.ones(1, 4),))  # a user's own call, in no step
    assert len(recorder.iterations) == 2


@pytest.mark.usefixtures("one_rank")
def test_weights_by_the_users_own_builder(hooked: Any, recorder: Any) -> None:
    built: list[int] = []

    def builder() -> Any:
        return lambda: built.append(1)

    stages = _stages(2, dw_builder=builder)
    _step(hooked.ScheduleInterleavedZeroBubble(stages, MICROBATCHES, loss_fn=_loss))
    kinds = _kinds(recorder)
    assert kinds.count(OpKind.BACKWARD_WEIGHT) == len(built) == 2 * MICROBATCHES
    assert kinds.count(OpKind.BACKWARD_INPUT) == kinds.count(OpKind.FORWARD) == 2 * MICROBATCHES


@pytest.mark.usefixtures("one_rank")
def test_forwards_alone_are_no_training(hooked: Any, recorder: Any) -> None:
    batch = torch.ones(MICROBATCHES, 4)
    hooked._ScheduleForwardOnly(_stages(1)[0], MICROBATCHES).step(batch)
    hooked.ScheduleGPipe(_stages(1)[0], MICROBATCHES).step(batch)  # no loss, so no backward
    schedule = hooked.ScheduleGPipe(_stages(1)[0], MICROBATCHES, loss_fn=_loss)
    schedule.eval(batch, target=batch)
    _step(schedule)
    assert [one["training"] for one in recorder.iterations] == [False, False, False, True]
    assert [len(one["ops"]) for one in recorder.iterations] == [0, 0, 0, 2 * MICROBATCHES]


def _run_halves(action: Any, context: Any) -> None:
    """As libraries overlap them: the forward in a thread of its own."""
    forward, backward = action.sub_actions
    schedule = context.schedule_ref
    stages = {stage.stage_index: stage for stage in schedule._stages}

    def run_forward() -> None:
        stage, microbatch = stages[forward.stage_index], forward.microbatch_index
        output = stage.forward_one_chunk(microbatch, context.arg_mbs[microbatch], {})
        schedule._maybe_compute_loss(stage, output, context.target_mbs, microbatch)
        if stage.stage_index + 1 in stages:
            stages[stage.stage_index + 1].set_local_fwd_input(output, microbatch)

    thread = threading.Thread(target=run_forward)
    thread.start()
    thread.join()
    stage, microbatch = stages[backward.stage_index], backward.microbatch_index
    schedule.backward_counter[stage.stage_index] += 1
    stage.backward_one_chunk(microbatch, loss=schedule._maybe_get_loss(stage, microbatch))
    if stage.stage_index - 1 in stages:
        before = stages[stage.stage_index - 1]
        before.set_local_bwd_input(stage.get_local_bwd_output(microbatch), microbatch)


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("custom", [False, True])
def test_an_overlap_is_one_operation(hooked: Any, recorder: Any, tmp_path: Path, custom: bool) -> None:
    schedule = hooked.ScheduleDualPipeV(_stages(2), MICROBATCHES, loss_fn=_loss)
    if custom:
        schedule.register_custom_function(hooked.OVERLAP_F_B, _run_halves)
    _step(schedule)
    schedule._dump_csv(str(tmp_path / "order.csv"))
    (order,) = read_torch_csv(tmp_path / "order.csv").orders
    assert _ops(recorder) == [
        [op.kind, op.microbatch, op.chunk, op.backward_chunk, op.backward_microbatch] for op in order
    ]
    assert OpKind.FORWARD_BACKWARD in _kinds(recorder)


@pytest.mark.usefixtures("one_rank")
def test_a_schedule_that_was_loaded_anew(hooked: Any, recorder: Any, tmp_path: Path) -> None:
    schedule = hooked._PipelineScheduleRuntime(_stages(2), 1, loss_fn=_loss)
    for text in ("0F0,1F0,1B0,0B0", "0F0,1F0,1I0,1W0,0B0"):
        (tmp_path / "order.csv").write_text(text)
        schedule._load_csv(str(tmp_path / "order.csv"))
        _step(schedule, 1)
    letters = [[kind.replace("backward_", "") for kind in _kinds(recorder, one)] for one in (0, 1)]
    assert letters[0] == ["forward", "forward", "backward", "backward"]
    assert letters[1] == ["forward", "forward", "input", "weight", "backward"]
    assert [len(one["order"]) for one in recorder.iterations] == [4, 5]


def _count_objects(schedule: Any, iterations: int) -> int:
    """Objects alive after as many iterations, each with a step that fails and an evaluation after it."""
    batch = torch.ones(2, 4)
    for _ in range(iterations):
        schedule.step(batch, target=batch)
        with pytest.raises(RuntimeError, match="failed to run forward"):
            schedule.step(torch.ones(2, 5), target=batch)
        schedule.eval(batch, target=batch)
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.usefixtures("one_rank")
def test_nothing_grows_with_the_iterations(schedules: Any) -> None:
    adapter_for(MODULE).install(schedules, NoHooks())
    schedule = schedules.Schedule1F1B(_stages(1)[0], 2, loss_fn=_loss)
    _count_objects(schedule, 10)
    before = _count_objects(schedule, 10)
    assert _count_objects(schedule, 100) - before < 50
    gone = ref(schedule)
    del schedule
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("one_rank")
def test_hooks_that_fail_do_not_reach_the_training(schedules: Any, broken_hooks: Any, swallowed: Any) -> None:
    from torch.distributed.pipelining import ScheduleGPipe

    adapter_for(MODULE).install(schedules, broken_hooks)
    stage = _stages(1)[0]
    _step(ScheduleGPipe(stage, MICROBATCHES, loss_fn=_loss))
    assert all(weight.grad is not None for weight in stage.submod.parameters())
    assert swallowed.pop().said
