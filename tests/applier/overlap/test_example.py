"""The example, trained through real sessions on fake boards, as real plan files say."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import Execution, PartitionConfig, Partitions
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Plan, write_plan
from energyopt.schemas.planned_ops import PlannedOp

pytest.importorskip("torch", reason="needs torch: pip install energyopt[torch]")

LAYERS, MICROBATCHES, ITERATIONS = 2, 2, 3  # the example's
CLOCKS_MHZ = {OpKind.FORWARD: 1200, OpKind.BACKWARD: 1395}


def plan(nanobatches: int, forward: Partitions = (), backward: Partitions = ()) -> Plan:
    partitions = {OpKind.FORWARD: forward, OpKind.BACKWARD: backward}
    ops = tuple(
        PlannedOp(
            op=kind,
            chunk=0,
            microbatch=microbatch,
            sm_clock_mhz=CLOCKS_MHZ[kind],
            nanobatches=nanobatches,
            partitions=partitions[kind],
        )
        for microbatch in range(MICROBATCHES)
        for kind in partitions
    )
    return Plan(
        profile_sha256=None,
        device_name="NVIDIA A100-SXM4-80GB",
        device_kind="nvml",
        pipeline=Pipeline(stages=1, microbatches=MICROBATCHES, tensor_parallel=2),
        gpus=2,
        predicted=None,
        max_clock=None,
        best_single_clock=None,
        stages=(ops,),
    )


def overlapped(sms: int | None, launch: str) -> PartitionConfig:
    return PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=sms, comm_launch=launch)


def test_real_plans_through_real_sessions(
    two_ranks: Callable[..., list[str]], tmp_path: Path, make_fake_nvml: Callable[..., Any]
) -> None:
    """Cut in two, with and without overlap: the very same losses. Boards are asked for the plan's clocks."""
    forward = (("attention", overlapped(4, "attention")), ("mlp", overlapped(None, "activation")))
    backward = (("attention", overlapped(8, "out_proj.dgrad")), ("mlp", overlapped(8, "activation.backward")))
    names = ("cut", "overlapped")
    for name, one in zip(names, (plan(2), plan(2, forward, backward)), strict=True):
        write_plan(tmp_path / name, one)
    fake = make_fake_nvml(2)
    environment = {name: fake.env[name] for name in (*fake.variables, "LD_LIBRARY_PATH")}
    outs = [tmp_path / f"rank{rank}.json" for rank in range(2)]
    said = two_ranks(
        "example_ranks.py",
        outs,
        *(str(tmp_path / name) for name in names),
        ENERGYOPT_STATE_DIR=str(tmp_path / "state"),
        **environment,
    )
    assert said == ["", ""]
    whole, cut, beside = zip(*(json.loads(out.read_text()) for out in outs), strict=True)
    assert cut[0]["losses"] == cut[1]["losses"] == beside[0]["losses"] == beside[1]["losses"]
    for one, other in zip(whole[0]["losses"], cut[0]["losses"], strict=True):
        assert float.fromhex(one) == pytest.approx(float.fromhex(other), rel=1e-5)
    for rank in range(2):
        check(whole[rank]["started"], cut[rank]["started"], beside[rank]["started"])
    for board in fake.boards:
        calls = [call for call in fake.calls() if call.uuid == board.uuid]
        asked = {call.arguments[0] for call in calls if call.call == "set_locked_clocks"}
        assert asked == set(CLOCKS_MHZ.values())
        assert board.lock_mhz is None


def check(whole: list[str], cut: list[str], beside: list[str]) -> None:
    """One communication after each block of each part and one before, in the groups that the plan names.

    Attention's bounded one forward: both parts of each layer but the very first. Backward: attention's and the
    MLP's, of which the last block's last part has none.
    """
    runs = MICROBATCHES * ITERATIONS
    assert len(cut) == len(beside) == 2 * len(whole) == runs * 2 * (2 * 2 * LAYERS)
    assert sum(one.endswith("bounded") for one in [*whole, *cut]) == 0
    forward, backward = 2 * LAYERS - 1, (2 * LAYERS - 1) + (2 * LAYERS - 1)
    assert sum(one.endswith("bounded") for one in beside) == runs * (forward + backward)
