"""Folders in the artifact's form. Every number is made by a formula, so that tests know what must arrive."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from energyopt.profiler.importers.kareus.reading import KareusImport, read_kareus

TENSOR = ("fwd_attn", "fwd_mlp", "bwd_attn", "bwd_mlp")
CONTEXT = ("fwd_qkv_ar", "fwd_qkv_ag", "fwd_ao_ag", "fwd_ao_ar", "fwd_mlp", "bwd_qkv_ar", "bwd_qkv_rs")
CONTEXT += ("bwd_a_rs", "bwd_a_ag", "bwd_o_ag", "bwd_o_ar", "bwd_mlp")
FILES = ("preprocess", "postprocess", "loss", "preprocess_backward", "postprocess_backward")
HEADER = "time (s),total_energy (J),per_rank_energy (J)\n"
CLOCKS = (1200, 1410)

Job = Callable[..., Path]
Read = Callable[..., KareusImport]


def record(
    clock: int = 1410, launch: object = 4, end: object = 8, sm: int = 24, **others: Any
) -> dict[str, Any]:
    """One line's object: 5 ms at 250 W at 1410 MHz if nothing else is told."""
    time_s = 5e-3 * 1410 / clock
    found = {"freq": clock, "overlap_start": launch, "overlap_end": end, "sm": sm, "block": 1024}
    return found | {"time_s": time_s, "energy_j": 250 * time_s} | others


def lines(records: Iterable[object]) -> str:
    return "".join(json.dumps(one) + "\n" for one in records)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Makes the folder of a job: the given names' logs with one configuration at each clock, and all CSV files."""

    def make(name: str = "cp1-tp8-bs8-seq4096", partitions: Iterable[str] = TENSOR) -> Path:
        folder = tmp_path / "llama3.2_3b" / name
        for index, partition in enumerate(partitions, start=1):
            (folder / partition).mkdir(parents=True)
            found = [record(clock, sm=index) for clock in CLOCKS]
            (folder / partition / "eval_results.jsonl").write_text(lines(found))
        for clock in CLOCKS:
            (folder / "nonpartition" / str(clock)).mkdir(parents=True)
            for index, file in enumerate(FILES, start=1):
                path = folder / "nonpartition" / str(clock) / f"{file}_energy.csv"
                path.write_text(f"{HEADER}{index / clock},{8 * 200 * index / clock},{200 * index / clock}\n")
        return folder

    return make


@pytest.fixture
def read() -> Read:
    """Reads a folder as of two stages of 14 layers on A100s."""

    def call(folder: Path, **settings: Any) -> KareusImport:
        told = {"device_name": "A100", "wait_power_w": 85.0, "layers_per_stage": (14, 14)}
        return read_kareus(folder, **(told | settings))

    return call


@pytest.fixture
def make_record() -> Callable[..., dict[str, Any]]:
    return record


@pytest.fixture
def write_log() -> Callable[[Path, Iterable[object]], Path]:
    """Writes a log of these objects, or of these lines where they are texts."""

    def write(path: Path, records: Iterable[object]) -> Path:
        texts = (one if isinstance(one, str) else json.dumps(one) for one in records)
        path.write_text("".join(text + "\n" for text in texts))
        return path

    return write
