import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyopt.applier.kareus.export import kareus_texts
from energyopt.applier.kareus.plans import plan_from_kareus
from energyopt.schemas.errors import RequestError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import PLAIN, Execution, PartitionConfig
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Plan
from energyopt.schemas.planned_ops import PlannedOp

F, B = OpKind.FORWARD, OpKind.BACKWARD
Change = Callable[[PlannedOp], PlannedOp]

FORWARD = {"fwd_attn": ("4", 24), "fwd_mlp": ("0", 18)}
AGAIN = {"recompute_fwd_attn": ("2", 27), "recompute_fwd_mlp": (None, 6)}
OWN = {"bwd_attn": ("5", 9), "bwd_mlp": ("3", 12)}


def configs(told: Mapping[str, tuple[str | None, int]]) -> tuple[tuple[str, PartitionConfig], ...]:
    kinds = {True: Execution.SEQUENTIAL, False: Execution.OVERLAPPED}
    return tuple(
        (name, PartitionConfig(execution=kinds[launch is None], comm_sms=sms, comm_launch=launch))
        for name, (launch, sms) in sorted(told.items())
    )


def changed(plan: Plan, change: Change) -> Plan:
    return replace(plan, stages=tuple(tuple(change(op) for op in stage) for stage in plan.stages))


def with_configs(plan: Plan, by_kind: Mapping[OpKind, Mapping[str, tuple[str | None, int]]]) -> Plan:
    return changed(plan, lambda op: replace(op, nanobatches=2, partitions=configs(by_kind[op.op])))


@pytest.fixture
def recomputing(small_plan: Plan) -> Plan:
    return with_configs(small_plan, {F: FORWARD, B: AGAIN | OWN})


def test_with_recomputation_in_the_order_of_execution(recomputing: Plan) -> None:
    freqs, scheds = kareus_texts(recomputing)
    assert freqs.startswith(
        "[\n[('forward', 1400), ('forward', 1000), ('backward', 1000), ('backward', 1400)],\n"
    )
    forward = "('forward', '4-8-24-1024', '0-6-18-1024')"
    backward = "('backward', '2-8-27-1024', '-1--1-6-1024', '5-8-9-1024', '3-6-12-1024')"
    assert scheds == (
        "[\n"
        f"[{forward}, {forward}, {backward}, {backward}],\n"
        f"[{forward}, {backward}, {forward}, {backward}],\n"
        "]\n"
        "# predicted iteration time: 9.000000 s\n"
        "# predicted iteration energy: 3975.000 J on 2 GPUs\n"
    )


def test_without_recomputation_in_pairs_by_microbatch(small_plan: Plan) -> None:
    own = {"bwd_attn": ("norm_0", 9), "bwd_mlp": (None, 12)}
    _, scheds = kareus_texts(with_configs(small_plan, {F: {**FORWARD, "fwd_attn": ("0", 3)}, B: own}))
    forward = ("forward", "0-8-3-1024", "0-6-18-1024")
    backward = ("backward", "norm_0-none-9-1024", "-1--1-12-1024")
    assert ast.literal_eval(scheds) == [[(forward, backward)] * 2] * 2


def test_by_name_alone_none_is_a_name_too(small_plan: Plan) -> None:
    forward = {"fwd_attn": ("rope_0", 24), "fwd_mlp": (None, 18)}
    _, scheds = kareus_texts(
        with_configs(small_plan, {F: forward, B: {"bwd_attn": (None, 1), "bwd_mlp": (None, 2)}})
    )
    first = ast.literal_eval(scheds)[0][0]
    assert first == (
        ("forward", "rope_0-none-24-1024", "none-none-18-1024"),
        ("backward", "none-none-1-1024", "none-none-2-1024"),
    )


def written(plan: Plan, folder: Path) -> tuple[Path, Path]:
    paths = folder / "freqs_x.py", folder / "scheds_x.py"
    for path, text in zip(paths, kareus_texts(plan), strict=True):
        path.write_text(text)
    return paths


def test_a_plan_survives_the_way_there_and_back(recomputing: Plan, tmp_path: Path) -> None:
    found = plan_from_kareus(*written(recomputing, tmp_path), device_name="A100")
    assert found.plan.stages == recomputing.stages
    assert (found.plan.pipeline, found.recompute, found.notes) == (recomputing.pipeline, True, ())


LAYOUTS = {
    (2, 2): "fwd_attn fwd_mlp | bwd_attn bwd_mlp",
    (2, 4): "fwd_attn fwd_mlp | recompute_fwd_attn recompute_fwd_mlp bwd_attn bwd_mlp",
    (5, 7): "fwd_qkv_ar fwd_qkv_ag fwd_ao_ag fwd_ao_ar fwd_mlp"
    " | bwd_qkv_ar bwd_qkv_rs bwd_a_rs bwd_a_ag bwd_o_ag bwd_o_ar bwd_mlp",
}


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_plan_of_these_partitions_survives(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Names and counts as in the artifact; windows from kernel 0 or a named one fit every partition."""
    words = data.draw(st.sampled_from(sorted(LAYOUTS.values()))).split(" | ")
    names = dict(zip((F, B), (one.split() for one in words), strict=True))
    config = st.tuples(st.sampled_from([None, "0", "rope_0", "linear_12"]), st.integers(1, 512))

    def ops(stage: str) -> tuple[PlannedOp, ...]:
        seen = dict.fromkeys((F, B), 0)
        found = []
        for kind in (F if letter == "F" else B for letter in stage):
            partitions = configs({name: data.draw(config) for name in names[kind]})
            found.append(
                PlannedOp(
                    op=kind, chunk=0, microbatch=seen[kind], sm_clock_mhz=data.draw(st.integers(210, 2100)),
                    nanobatches=2, partitions=partitions,
                )
            )  # fmt: skip
            seen[kind] += 1
        return tuple(found)

    folder = tmp_path_factory.getbasetemp()
    base = plan_of(tuple(ops(stage) for stage in ("FFBB", "FBFB")))
    back = plan_from_kareus(*written(base, folder), device_name="A100", sms=512).plan
    assert back.stages == base.stages
    assert kareus_texts(back) == kareus_texts(replace(base, predicted=None))


def plan_of(stages: Any) -> Plan:
    return Plan(
        profile_sha256=None, device_name="A100", device_kind="imported", gpus=len(stages), predicted=None,
        pipeline=Pipeline(stages=len(stages), microbatches=2), max_clock=None, best_single_clock=None,
        stages=stages,
    )  # fmt: skip


def set_partitions(name: str, config: PartitionConfig | None) -> Change:
    """Gives one partition of every operation that has it another configuration, or none."""

    def change(op: PlannedOp) -> PlannedOp:
        own = dict(op.partitions)
        if name not in own:
            return op
        rest = {key: value for key, value in own.items() if key != name}
        return replace(op, partitions=tuple(sorted({**rest, **({name: config} if config else {})}.items())))

    return change


OVERLAPPED = PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=3, comm_launch="2")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda op: replace(op, nanobatches=1), "2 nanobatches, but this plan's forward of microbatch 0 runs in 1"),
        (lambda op: replace(op, partitions=()), "forward has the partitions fwd_attn, fwd_mlp, .* sets none"),
        (set_partitions("bwd_mlp", None), "needs the SMs of bwd_mlp, .*backward of microbatch 0 leaves"),
        (
            lambda op: replace(op, partitions=(("attention", OVERLAPPED), ("mlp", OVERLAPPED))),
            "forward has the partitions fwd_attn, fwd_mlp, but this plan's .* sets attention, mlp; write plan.json",
        ),
        (set_partitions("fwd_attn", replace(OVERLAPPED, comm_sms=None)), "fwd_attn in .* leaves it to the library"),
        (set_partitions("fwd_attn", PLAIN), "needs a number of SMs, but fwd_attn in"),
        (set_partitions("fwd_attn", replace(OVERLAPPED, sm_clock_mhz=900)), "no clock of a partition, but fwd"),
        (set_partitions("fwd_attn", replace(OVERLAPPED, comm_launch="9")), "before kernel 9; .* end at 8"),
        (set_partitions("fwd_attn", replace(OVERLAPPED, comm_launch="a-b")), "cannot say the launch of .*'a-b'"),
        (set_partitions("fwd_attn", replace(OVERLAPPED, comm_launch="²")), "cannot say the launch of"),
        (lambda op: replace(op, op=OpKind.OPTIMIZER), "Zeus knows forward and backward"),
    ],
)  # fmt: skip
def test_what_cannot_be_written(recomputing: Plan, change: Change, complaint: str) -> None:
    with pytest.raises(RequestError, match=complaint) as caught:
        kareus_texts(changed(recomputing, change))
    assert "\n" not in str(caught.value)


def test_several_chunks_cannot_be_written(recomputing: Plan) -> None:
    chunked = replace(recomputing, pipeline=replace(recomputing.pipeline, chunks_per_stage=2))
    with pytest.raises(RequestError, match="one model chunk per stage, this plan has 2"):
        kareus_texts(chunked)
