import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.profiler.workloads.architecture import Architecture
from energyopt.profiler.workloads.interface import Kernel, PartitionUse, Workload, WorkloadOp
from energyopt.profiler.workloads.job import job_shape
from energyopt.profiler.workloads.transformer import transformer_workload
from energyopt.schemas.ops import OpKind

_TINY: dict[str, Any] = {
    "name": "tiny",
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 48,
    "vocab_size": 200,
}


@pytest.fixture
def tiny() -> Callable[..., Architecture]:
    return lambda **changes: Architecture(**(_TINY | changes))


@pytest.fixture
def workload(tiny: Callable[..., Architecture]) -> Callable[..., Workload]:
    """A tiny model under the given job settings."""

    def build(changes: dict[str, Any] | None = None, **settings: Any) -> Workload:
        shape = {"sequence_length": 64, "microbatch_size": 2} | settings
        return transformer_workload(tiny(**(changes or {})), job_shape(shape))

    return build


@pytest.fixture
def op_of() -> Callable[..., WorkloadOp]:
    def find(workload: Workload, kind: str, stage: int = 0, chunk: int = 0) -> WorkloadOp:
        (found,) = (
            op for op in workload.ops if (op.stage, op.chunk, op.kind) == (stage, chunk, OpKind(kind))
        )
        return found

    return find


@pytest.fixture
def layout() -> Callable[[WorkloadOp], dict[str, list[str]]]:
    """The names of an op's partitions and of the kernels in each."""

    def of(op: WorkloadOp) -> dict[str, list[str]]:
        return {
            use.partition.name: [kernel.kernel.name for kernel in use.partition.kernels]
            for use in op.partitions
        }

    return of


@pytest.fixture
def matrix_flops() -> Callable[[Workload, str], float]:
    """Operations on matrix units in all ops of a kind (or of all that start with it), one GPU per stage."""

    def of_use(use: PartitionUse) -> float:
        counted: list[tuple[Kernel, int]] = [(one.kernel, one.count) for one in use.partition.kernels]
        return use.count * sum(kernel.flops * count for kernel, count in counted if kernel.matrix)

    def total(workload: Workload, kind: str) -> float:
        return sum(of_use(use) for op in workload.ops if op.kind.startswith(kind) for use in op.partitions)

    return total


@pytest.fixture
def write_model(tmp_path: Path) -> Callable[..., Path]:
    """`write_model(content, name)`: a configuration file, from text or from what JSON is to hold."""

    def put(content: str | dict[str, Any], name: str = "my-model.json") -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return put
