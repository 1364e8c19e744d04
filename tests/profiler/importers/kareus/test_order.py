from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from energyopt.profiler.importers.kareus.reading import KareusImport
from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.ops import OpKey, OpKind

Job = Callable[..., Path]
Read = Callable[..., KareusImport]
Record = Callable[..., dict[str, Any]]
WriteLog = Callable[[Path, Iterable[object]], Path]

F, B = OpKind.FORWARD, OpKind.BACKWARD
FORWARD = ("fwd_attn", "fwd_mlp")
BACKWARD = ("recompute_fwd_attn", "recompute_fwd_mlp", "bwd_mlp", "bwd_attn")
CONTEXT_FORWARD = ("fwd_qkv_ar", "fwd_qkv_ag", "fwd_ao_ag", "fwd_ao_ar", "fwd_mlp")
CONTEXT_BACKWARD = ("bwd_mlp", "bwd_o_ar", "bwd_o_ag", "bwd_a_ag", "bwd_a_rs", "bwd_qkv_rs", "bwd_qkv_ar")


def test_a_backward_mirrors_its_forward(job: Job, read: Read) -> None:
    profile = read(job(), layers_per_stage=(9, 9, 10)).profile
    assert profile.metadata.partition_order == {
        OpKey(0, 0, F): ("embedding", *FORWARD),
        OpKey(0, 0, B): (*BACKWARD, "embedding"),
        OpKey(1, 0, F): FORWARD,
        OpKey(1, 0, B): BACKWARD,
        OpKey(2, 0, F): (*FORWARD, "head", "loss"),
        OpKey(2, 0, B): ("head", *BACKWARD),
    }


def test_one_stage_without_recomputation(job: Job, read: Read) -> None:
    folder = job("cp2-tp4-bs16-seq4096", {*CONTEXT_FORWARD, *CONTEXT_BACKWARD})
    profile = read(folder, layers_per_stage=(28,), recompute=False).profile
    assert profile.metadata.partition_order == {
        OpKey(0, 0, F): ("embedding", *CONTEXT_FORWARD, "head", "loss"),
        OpKey(0, 0, B): ("head", *CONTEXT_BACKWARD, "embedding"),
    }


def test_the_order_names_what_the_rows_are_of(job: Job, read: Read) -> None:
    profile = read(job()).profile
    for key, names in profile.metadata.partition_order.items():
        rows = [row for row in profile.rows if OpKey(row.stage, row.chunk, row.op) == key]
        assert {row.partition for row in rows} == set(names)


def test_more_sms_than_the_gpu_has(job: Job, read: Read, make_record: Record, write_log: WriteLog) -> None:
    folder = job()
    write_log(folder / "bwd_mlp/eval_results.jsonl", [make_record(1200), make_record(1410, sm=109)])
    with pytest.raises(
        FileFormatError, match=r"bwd_mlp/eval_results.jsonl: line 2: 109 SMs, but A100 has 108"
    ):
        read(folder)
    with pytest.raises(FileFormatError, match="line 1: 24 SMs, but other has 20"):
        read(folder, device_name="other", sms=20)
    assert read(folder, sms=109).profile.rows
    assert read(folder, device_name="other").profile.rows
