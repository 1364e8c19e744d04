"""What a version of PyTorch has to have, and what is said of a run."""

from types import SimpleNamespace
from typing import Any

import pytest

from energyopt.applier.adapters.interface import MissingHookError
from energyopt.applier.adapters.registry import adapter_for
from energyopt.applier.adapters.torch_schedules import describe, read_program
from energyopt.applier.runtime.facts import PlacedOp
from energyopt.planner.schedules.registry import SCHEDULES

torch = pytest.importorskip("torch")

MODULE = "torch.distributed.pipelining.schedules"


def _forget_argument(self: Any, bwd_chunk_id: int, loss: Any = None) -> None: ...


def _forget_fields(self: Any) -> None:
    self._n_microbatches = 1


SIZES = (
    (2, 1),
    (2, 4),
    (2, 12),
    (3, 3),
    (3, 4),
    (3, 12),
    (4, 3),
    (4, 6),
    (4, 8),
    (4, 12),
)  # ranks, microbatches
MISSING = {
    "_PipelineStageBase.backward_weight_one_chunk": ("_PipelineStageBase", "backward_weight_one_chunk", None),
    r"backward_one_chunk\(full_backward\)": ("_PipelineStageBase", "backward_one_chunk", _forget_argument),
    "PipelineScheduleMulti.step, .*PipelineScheduleMulti._stages": (None, "PipelineScheduleMulti", None),
    "lacks _PipelineSchedule._has_backward, so": ("_PipelineSchedule", "__init__", _forget_fields),
}


@pytest.mark.parametrize("text", MISSING)
def test_a_missing_point_is_named_and_nothing_is_hooked(
    schedules: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    owner, name, other = MISSING[text]
    place = getattr(schedules, owner) if owner else schedules
    if other is None:
        monkeypatch.delattr(place, name)
    else:
        monkeypatch.setattr(place, name, other)
    step = schedules.PipelineScheduleSingle.step
    with pytest.raises(MissingHookError, match=text) as caught:
        adapter_for(MODULE).install(schedules, recorder)
    assert torch.__version__ in str(caught.value)
    assert schedules.PipelineScheduleSingle.step is step


def _interleaved(module: Any, rank: int, ranks: int, chunks: int, microbatches: int) -> Any:
    stages = [
        SimpleNamespace(
            stage_index=chunk * ranks + rank,
            num_stages=ranks * chunks,
            group_rank=rank,
            group_size=ranks,
            device="cuda:1",
            is_last=False,
        )
        for chunk in range(chunks)
    ]
    return module.ScheduleInterleaved1F1B(stages, microbatches)


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_our_name_stands_for_our_order(schedules: Any, ranks: int, chunks: int, microbatches: int) -> None:
    ours = SCHEDULES["interleaved-1f1b"](ranks, microbatches, chunks)
    facts = []
    for rank in range(ranks):
        schedule = _interleaved(schedules, rank, ranks, chunks, microbatches)
        facts.append(describe(schedule, read_program(schedule)))
    orders = [
        tuple(PlacedOp(kind=op.kind, chunk=op.chunk, microbatch=op.microbatch) for op in order)
        for order in ours.orders
    ]
    same = [one.order for one in facts] == orders
    named = microbatches % ranks == 0 and chunks > 1
    assert same or not named
    assert {one.schedule for one in facts} == ({"interleaved-1f1b"} if named else {None})
    assert {one.device_ordinal for one in facts} == {1}
