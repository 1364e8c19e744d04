"""Settings as in the artifact's plans for cp1_tp8 (01434) and cp2_tp4 (01799)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.kareus.plans import KareusPlan, plan_from_kareus
from energyopt.schemas.errors import FileFormatError, RequestError
from energyopt.schemas.nodes import Node
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import Execution, PartitionConfig
from energyopt.schemas.plan import plan_from_json, plan_to_json

Pair = Callable[..., tuple[Path, Path]]

F, B = OpKind.FORWARD, OpKind.BACKWARD
ATTENTION, MLP = "4-8-24-1024", "0-6-18-1024"
AGAIN = ("2-8-27-1024", "0-6-6-1024")
OWN = ("5-8-9-1024", "3-6-12-1024")

# two microbatches on the first of two stages and on the second, in the order of 1F1B
CLOCKS = [
    [("forward", 1140), ("forward", 900), ("backward", 1020), ("backward", 1080)],
    [("forward", 1110), ("backward", 1080), ("forward", 960), ("backward", 960)],
]


def settings(
    forward: tuple[str, ...] = (ATTENTION, MLP), backward: tuple[str, ...] = (*AGAIN, *OWN)
) -> list[Any]:
    texts = {"forward": ("forward", *forward), "backward": ("backward", *backward)}
    return [[texts[kind] for kind, _ in stage] for stage in CLOCKS]


def read(pair: tuple[Path, Path], **degrees: int) -> KareusPlan:
    return plan_from_kareus(*pair, device_name="A100", **degrees)


def at(launch: str | None, sms: int) -> PartitionConfig:
    execution = Execution.SEQUENTIAL if launch is None else Execution.OVERLAPPED
    return PartitionConfig(execution=execution, comm_sms=sms, comm_launch=launch)


def test_tensor_parallel_with_recomputation(pair: Pair) -> None:
    found = read(pair(CLOCKS, settings()))
    plan = found.plan
    assert (found.layout.name, found.recompute, found.notes) == ("tensor parallel", True, ())
    assert (plan.pipeline.schedule, plan.pipeline.microbatches, plan.gpus) == ("1f1b", 2, 2)
    assert [[op.sm_clock_mhz for op in stage] for stage in plan.stages] == [
        [1140, 900, 1020, 1080],
        [1110, 1080, 960, 960],
    ]
    assert {op.nanobatches for stage in plan.stages for op in stage} == {2}
    assert dict(plan.stages[0][0].partitions) == {"fwd_attn": at("4", 24), "fwd_mlp": at("0", 18)}
    assert dict(plan.stages[0][2].partitions) == {
        "recompute_fwd_attn": at("2", 27),
        "recompute_fwd_mlp": at("0", 6),
        "bwd_attn": at("5", 9),
        "bwd_mlp": at("3", 12),
    }


def test_context_parallel_with_recomputation(pair: Pair) -> None:
    forward = tuple(f"0-{end}-{sms}-1024" for sms, end in enumerate((5, 5, 2, 2, 6), start=1))
    backward = forward + tuple(
        f"0-{end}-{sms}-1024" for sms, end in enumerate((5, 5, 0, 0, 1, 1, 6), start=6)
    )
    found = read(pair(CLOCKS, settings(forward, backward)), tensor_parallel=4, context_parallel=2)
    assert (found.layout.name, found.recompute, found.notes) == ("context parallel", True, ())
    assert (found.plan.gpus, found.plan.pipeline.tensor_parallel) == (16, 4)
    sms = {name: config.comm_sms for name, config in found.plan.stages[0][2].partitions}
    names = ["qkv_ar", "qkv_ag", "ao_ag", "ao_ar", "mlp"]
    assert sms == {f"recompute_fwd_{name}": number for number, name in enumerate(names, start=1)} | {
        f"bwd_{name}": number
        for number, name in enumerate(["qkv_ar", "qkv_rs", "a_rs", "a_ag", "o_ag", "o_ar", "mlp"], start=6)
    }


@pytest.mark.parametrize(("forward", "backward"), [(2, 2), (5, 7)])
def test_without_recomputation_settings_come_by_microbatch(pair: Pair, forward: int, backward: int) -> None:
    def texts(kind: str, count: int, microbatch: int) -> tuple[str, ...]:
        return (kind, *[f"none-none-{microbatch + 1}-1024"] * count)

    stage = [(texts("forward", forward, one), texts("backward", backward, one)) for one in (0, 1)]
    found = read(pair(CLOCKS, [stage, stage]))
    assert not found.recompute
    for ops in found.plan.stages:
        for op in ops:
            assert len(op.partitions) == {F: forward, B: backward}[op.op]
            assert {config for _, config in op.partitions} == {at(None, op.microbatch + 1)}


def test_in_the_order_of_execution_without_recomputation(pair: Pair) -> None:
    found = read(pair(CLOCKS, settings(backward=OWN)))
    assert not found.recompute
    assert dict(found.plan.stages[1][1].partitions) == {"bwd_attn": at("5", 9), "bwd_mlp": at("3", 12)}


def test_kernels_by_name(pair: Pair) -> None:
    found = read(pair(CLOCKS, settings(("rope_0-none-24-1024", "none-none-18-1024"))))
    assert dict(found.plan.stages[0][0].partitions) == {"fwd_attn": at("rope_0", 24), "fwd_mlp": at(None, 18)}
    assert found.notes == ()


def test_what_a_plan_file_does_not_keep_is_said(pair: Pair) -> None:
    found = read(pair(CLOCKS, settings(("4-7-24-1024", "0-6-18-512"))))
    assert found.notes == (
        "fwd_attn is waited for at kernel 7 (4 times): a plan file does not keep it",
        "fwd_mlp has blocks of 512 threads (4 times): a plan file does not keep it",
    )


def test_the_plan_has_a_file_form(pair: Pair) -> None:
    plan = read(pair(CLOCKS, settings())).plan
    assert plan_from_json(Node("plan.json", "$", plan_to_json(plan))) == plan


FORWARD, BACKWARD = ("forward", ATTENTION, MLP), ("backward", *AGAIN, *OWN)
ONE = [[("forward", 1140), ("backward", 1020)]]


@pytest.mark.parametrize(
    ("scheds", "complaint"),
    [
        ("__import__('os').system('true')", "holds more than lists, tuples, texts and numbers"),
        ("[[('forward', open('x').read(), 'y')]]", "holds more than"),
        ("[[('forward', '4-8-24-1024'", r"not a Python list, or cut short: .*line 1"),
        ([], r"0 stages, but freqs_pipeline_00007.py has 1 @ \$$"),
        ([[FORWARD, BACKWARD]] * 2, r"2 stages, but freqs_pipeline_00007.py has 1 @ \$$"),
        ([[FORWARD]], r"1 operations, but freqs_\S+ has 2 in this stage @ \$\[0\]"),
        ([[]], r"0 operations, but freqs_\S+ has 2 in this stage @ \$\[0\]"),
        ([[BACKWARD, FORWARD]], r"backward, where freqs_\S+ has forward @ \$\[0\]\[0\]"),
        ([[FORWARD, ()]], r"missing instruction @ \$\[0\]\[1\]"),
        ([[FORWARD, ("loss", MLP)]], r"unknown instruction 'loss'; Kareus knows .* @ \$\[0\]\[1\]\[0\]"),
        ([[("forward", MLP), BACKWARD]], r"1 settings; a forward of Kareus has 2 .* or 5 .* @ \$\[0\]\[0\]"),
        ([[FORWARD, ("backward", MLP)]], r"1 settings; a tensor parallel backward .* has 2, or 4 with"),
        ([[("forward", *[MLP] * 5), BACKWARD]], r"4 settings; a context parallel backward .* has 7, or 12"),
        ([[("forward", "4-8", MLP), BACKWARD]], r"'4-8' is no setting .* @ \$\[0\]\[0\]\[1\]"),
        ([[("forward", 4, MLP), BACKWARD]], r"expected text, found 4 @ \$\[0\]\[0\]\[1\]"),
        ([[(BACKWARD, FORWARD)]], r"expected a pair of forward and backward @ \$\[0\]\[0\]"),
        ([[(FORWARD, BACKWARD, BACKWARD)]], r"expected a pair of forward and backward"),
        ([[(FORWARD, BACKWARD)] * 2], r"2 microbatches, but the clocks are for 1 @ \$\[0\]"),
        (7, r"expected an array @ \$$"),
        ({"a": 1}, r"expected an array @ \$$"),
    ],
)  # fmt: skip
def test_pairs_that_do_not_fit(pair: Pair, scheds: object, complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint) as caught:
        read(pair(ONE, scheds))
    assert "scheds_pipeline_00007.py" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_operation_unlike_the_others_is_named(pair: Pair) -> None:
    scheds = settings()
    scheds[1][3] = ("backward", *OWN)
    with pytest.raises(FileFormatError, match=r"2 settings, where the first backward has 4 @ \$\[1\]\[3\]"):
        read(pair(CLOCKS, scheds))


def test_nothing_is_run(pair: Pair, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    with pytest.raises(FileFormatError):
        read(pair(ONE, f"[[('forward', open({str(trap)!r}, 'w').write('x'))]]"))
    assert not trap.exists()


def test_huge_files_are_not_parsed(pair: Pair) -> None:
    freqs, scheds = pair(ONE, [[FORWARD, BACKWARD]])
    with scheds.open("wb") as file:
        file.truncate(16 * 2**20 + 1)
    with pytest.raises(FileFormatError, match="16777217 bytes"):
        read((freqs, scheds))


def test_a_context_degree_that_does_not_fit(pair: Pair) -> None:
    with pytest.raises(RequestError, match="tensor parallel layer, which has context degree 1, not 2"):
        read(pair(CLOCKS, settings()), context_parallel=2)


def test_more_sms_than_the_gpu_has(pair: Pair) -> None:
    found = settings(backward=(*AGAIN, OWN[0], "3-6-109-1024"))
    with pytest.raises(FileFormatError, match=r"scheds_.*109 SMs, but A100 has 108; .* @ \$\[0\]\[2\]\[4\]"):
        read(pair(CLOCKS, found))
    with pytest.raises(FileFormatError, match=r"24 SMs, but A100 has 20; .* @ \$\[0\]\[0\]\[1\]"):
        read(pair(CLOCKS, settings()), sms=20)
    assert read(pair(CLOCKS, found), sms=109).plan.stages
