"""The fixture's numbers: partitions take 5 ms x 1410 / clock at 250 W, the i-th file i / clock seconds at 200 W."""

import json
from collections.abc import Callable, Iterable
from math import fsum
from pathlib import Path
from typing import Any

import pytest

from energyopt.profiler.importers.kareus.reading import KareusImport
from energyopt.schemas.errors import EnergyoptError, FileFormatError, ProfileError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.profile import Level, ProfileRow, read_profile, write_profile
from energyopt.schemas.profile_metadata import DeviceKind

Job = Callable[..., Path]
Read = Callable[..., KareusImport]
Record = Callable[..., dict[str, Any]]
WriteLog = Callable[[Path, Iterable[object]], Path]

F, B = OpKind.FORWARD, OpKind.BACKWARD
CONTEXT = [f"fwd_{name}" for name in ("qkv_ar", "qkv_ag", "ao_ag", "ao_ar", "mlp")]
CONTEXT += [f"bwd_{name}" for name in ("qkv_ar", "qkv_rs", "a_rs", "a_ag", "o_ag", "o_ar", "mlp")]


def counts(rows: Iterable[ProfileRow], stage: int, kind: OpKind) -> dict[str | None, int]:
    return {row.partition: row.count for row in rows if (row.stage, row.op) == (stage, kind)}


def test_tensor_parallel_counts(job: Job, read: Read) -> None:
    rows = read(job(), layers_per_stage=(13, 14, 1)).profile.rows
    assert counts(rows, 0, F) == {"fwd_attn": 26, "fwd_mlp": 26, "embedding": 1}
    assert counts(rows, 0, B) == {
        "recompute_fwd_attn": 26, "recompute_fwd_mlp": 26, "bwd_attn": 26, "bwd_mlp": 26, "embedding": 2,
    }  # fmt: skip
    assert counts(rows, 1, F) == {"fwd_attn": 28, "fwd_mlp": 28}
    assert counts(rows, 2, F) == {"fwd_attn": 2, "fwd_mlp": 2, "head": 1, "loss": 1}
    assert counts(rows, 2, B)["head"] == 1
    assert "embedding" not in counts(rows, 2, B)


def test_context_parallel_counts(job: Job, read: Read) -> None:
    imported = read(job("cp2-tp4-bs16-seq4096", CONTEXT), layers_per_stage=(14,))
    assert imported.profile.metadata.gpus_per_stage == 8
    forward = {"fwd_qkv_ar": 14, "fwd_qkv_ag": 14, "fwd_ao_ag": 14, "fwd_ao_ar": 14, "fwd_mlp": 28}
    rows = imported.profile.rows
    assert counts(rows, 0, F) == forward | {"embedding": 1, "head": 1, "loss": 1}  # one stage is both ends
    assert counts(rows, 0, B) == {f"recompute_{name}": count for name, count in forward.items()} | {
        "bwd_qkv_ar": 14, "bwd_qkv_rs": 14, "bwd_a_rs": 14, "bwd_a_ag": 14, "bwd_o_ag": 14, "bwd_o_ar": 14,
        "bwd_mlp": 28, "embedding": 2, "head": 1,
    }  # fmt: skip


def test_without_recomputation(job: Job, read: Read) -> None:
    imported = read(job(), recompute=False)
    assert counts(imported.profile.rows, 1, B) == {"bwd_attn": 28, "bwd_mlp": 28, "head": 1}
    assert imported.profile.metadata.workload["recompute"] == "none"


def test_an_operation_adds_up_as_in_the_artifact_but_for_its_factor(job: Job, read: Read) -> None:
    """Its sums: (attention + MLP) x layers x 2, in the backward with the forward again; embedding 1 and 2 times."""
    rows = read(job()).profile.rows

    def total_s(stage: int, kind: OpKind) -> float:
        own = [row for row in rows if (row.stage, row.op, row.sm_clock_mhz) == (stage, kind, 1410)]
        return fsum(row.count * row.time_s for row in own)

    assert total_s(0, F) == pytest.approx(2 * 5e-3 * 14 * 2 + 1 / 1410, rel=1e-12)
    assert total_s(0, B) == pytest.approx(4 * 5e-3 * 14 * 2 + 2 * 4 / 1410, rel=1e-12)
    assert total_s(1, F) == pytest.approx(2 * 5e-3 * 14 * 2 + (2 + 3) / 1410, rel=1e-12)
    assert total_s(1, B) == pytest.approx(4 * 5e-3 * 14 * 2 + 5 / 1410, rel=1e-12)


def test_rows_say_how_they_ran(job: Job, read: Read, make_record: Record, write_log: WriteLog) -> None:
    folder = job()
    sequential = [make_record(clock, "none", "none", 16) for clock in (1200, 1410)]
    write_log(folder / "fwd_attn/eval_results.jsonl", [*sequential, make_record(1410, 2, 8, 9)])
    rows = read(folder).profile.rows
    own = [
        row
        for row in rows
        if (row.stage, row.op, row.partition, row.sm_clock_mhz) == (0, F, "fwd_attn", 1410)
    ]
    assert [(row.execution, row.comm_launch, row.comm_sms, row.nanobatches) for row in own] == [
        ("sequential", None, 16, 2),
        ("overlapped", "2", 9, 2),
    ]
    for row in own:
        assert (row.level, row.chunk, row.time_s, row.energy_j) == (Level.PARTITION, 0, 5e-3, 1.25)
    embedding = next(row for row in rows if row.partition == "embedding")
    assert (embedding.execution, embedding.comm_sms, embedding.nanobatches) == ("sequential", None, None)
    assert embedding.samples == 1


def test_provenance(job: Job, read: Read, tmp_path: Path) -> None:
    imported = read(job(), power_limit_w=400.0)
    meta = imported.profile.metadata
    assert (meta.device_name, meta.device_kind, meta.wait_power_w) == ("A100", DeviceKind.IMPORTED, 85.0)
    assert (meta.gpus_per_stage, meta.power_limit_w, meta.source) == (8, 400.0, "cp1-tp8-bs8-seq4096")
    assert (meta.workload["model"], meta.workload["layers_per_stage"]) == ("llama3.2_3b", "14,14")
    assert meta.measurement == {"format": "kareus", "count.preprocess_backward": 2} | {
        f"{what}.{name}": value
        for what, value in (("block_threads", 1024), ("window_end", "8"))
        for name in ("fwd_attn", "fwd_mlp", "bwd_attn", "bwd_mlp")
    }
    assert imported.warnings == ()
    write_profile(tmp_path / "p.parquet", imported.profile)
    back = read_profile(tmp_path / "p.parquet")
    assert (back.sha256(), len(back.rows)) == (imported.profile.sha256(), len(imported.profile.rows))


def test_coverage(job: Job, read: Read, make_record: Record, write_log: WriteLog) -> None:
    folder = job()
    write_log(folder / "fwd_mlp/eval_results.jsonl", [make_record(1410, 0, 6, sm) for sm in (3, 6, 9)])
    (folder / "nonpartition/1200/loss_energy.csv").unlink()
    with pytest.raises(ProfileError) as caught:
        read(folder)
    assert str(caught.value) == (
        f"{folder}: clocks are missing in 2 of 9 partitions and files: fwd_mlp at 1200 MHz; nonpartition/loss at "
        "1200 MHz; measure them, or pass --allow-incomplete"
    )
    imported = read(folder, strict=False)
    assert [
        (one.partition, one.op, one.clocks, one.configurations, one.missing) for one in imported.coverage
    ] == [
        ("fwd_attn", F, 2, 1, ()),
        ("fwd_mlp", F, 1, 3, ("fwd_mlp at 1200 MHz",)),
        ("bwd_attn", B, 2, 1, ()),
        ("bwd_mlp", B, 2, 1, ()),
        ("nonpartition/preprocess", F, 2, 1, ()),
        ("nonpartition/postprocess", F, 2, 1, ()),
        ("nonpartition/loss", F, 1, 1, ("nonpartition/loss at 1200 MHz",)),
        ("nonpartition/preprocess_backward", B, 2, 1, ()),
        ("nonpartition/postprocess_backward", B, 2, 1, ()),
    ]
    assert len(imported.warnings) == 1
    assert imported.warnings[0].startswith("clocks are missing in 2 of 9")


def test_a_partition_without_anything_is_refused_always(job: Job, read: Read) -> None:
    folder = job()
    (folder / "bwd_mlp/eval_results.jsonl").unlink()
    with pytest.raises(
        ProfileError, match=r"there is no bwd_mlp/eval_results.jsonl; a tensor parallel job \(cp=1\)"
    ):
        read(folder, strict=False)


def test_a_file_without_anything_is_refused_always(job: Job, read: Read) -> None:
    folder = job()
    for path in folder.glob("nonpartition/*/loss_energy.csv"):
        path.unlink()
    with pytest.raises(ProfileError, match=r"nothing was measured of nonpartition/loss; .* too cheap"):
        read(folder, strict=False)


def test_a_layout_that_the_degree_does_not_fit(job: Job, read: Read) -> None:
    with pytest.raises(
        ProfileError, match=r"there is no fwd_qkv_ar/eval_results.jsonl, .*context parallel job \(cp=2\)"
    ):
        read(job(), workload={"cp": 2})


def test_damage_is_named_with_its_place(job: Job, read: Read) -> None:
    folder = job()
    with (folder / "bwd_attn/eval_results.jsonl").open("a") as file:
        file.write('{"freq": 14')
    with pytest.raises(FileFormatError, match=r"bwd_attn/eval_results.jsonl: line 3: not JSON, or cut short"):
        read(folder, strict=False)


def test_what_is_left_out_is_said(job: Job, read: Read, make_record: Record, write_log: WriteLog) -> None:
    folder = job()
    (folder / "fwd_qkv_ar").mkdir()
    (folder / "nonpartition/default").mkdir()
    (folder / "nonpartition/tee.log").touch()
    write_log(folder / "fwd_qkv_ar/eval_results.jsonl", [make_record()])
    repeated = [make_record(clock) for clock in (1200, 1410, 1410, 1200)]
    write_log(folder / "fwd_attn/eval_results.jsonl", [*repeated, make_record(end=9)])
    with (folder / "nonpartition/1410/loss_energy.csv").open("a") as file:
        file.write("0.002,3.2,0.4\n")
    found = read(folder, keep_first=True, window_ends=["fwd_attn=8"])
    assert found.warnings == (
        "fwd_attn: 2 later lines repeat a configuration; the first was kept",
        "fwd_attn: 1 lines of other window ends or block sizes were left out",
        "nonpartition: 1 files hold up to 2 rows; their means are used",
        "not read: fwd_qkv_ar, nonpartition/default",
    )
    losses = {row.sm_clock_mhz: row for row in found.profile.rows if row.partition == "loss"}
    assert (losses[1410].samples, losses[1200].samples) == (2, 1)
    assert losses[1410].time_s == pytest.approx((3 / 1410 + 0.002) / 2)


def test_rows_that_draw_less_than_waiting(job: Job, read: Read) -> None:
    """The files' 200 W, at two clocks: two rows on the first stage, three on the last."""
    warnings = read(job(), wait_power_w=240.0).warnings
    assert len(warnings) == 1
    assert warnings[0].startswith(
        "10 of 34 rows use less energy than waiting for as long would (240 W); worst: "
    )


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"device_name": " "}, "the name of the GPU is empty"),
        ({"wait_power_w": 85000.0}, "it looks like mW, which would be 85 W"),
        ({"power_limit_w": 0.0}, "the power limit must be above 0"),
        ({"layers_per_stage": (14, 0)}, "every stage needs at least 1 layer"),
        ({"window_ends": ["fwd_qkv_ar=5"]}, "--window-end has no partition 'fwd_qkv_ar'"),
        ({"block": 512}, "--block 512 fits nothing; fwd_attn has the block sizes 1024"),
        ({"power_limit_w": 160.0}, "a mean power of 250 W over 0.005875 s, outside 1 to 240 W"),
    ],
)
def test_settings_that_cannot_be(job: Job, read: Read, settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(EnergyoptError) as caught:
        read(job(), **settings)
    assert complaint in str(caught.value)


def test_logs_of_the_artifacts_latest_form(job: Job, read: Read) -> None:
    """Flags and predictions of the search, and kernels by name, are on every line of a log it wrote itself."""
    folder = job()
    names = {"overlap_start": "rope_0", "overlap_end": "none", "selected_time": False, "pred_time_s": 0.1}
    for path in folder.glob("*/eval_results.jsonl"):
        records = [json.loads(line) | names for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
    found = read(folder).profile
    assert {row.comm_launch for row in found.rows if row.nanobatches} == {"rope_0"}
    assert found.metadata.measurement["window_end.fwd_attn"] == "none"
