"""A user's own function: what it may return, and what of it is refused in one line."""

import hashlib
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.devices.interface import Identity
from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.profiling import Voice, run_profile
from energyopt.profiler.request import Request, digest_of
from energyopt.profiler.workloads.check import check_workload
from energyopt.profiler.workloads.interface import (
    Kernel,
    KernelUse,
    Partition,
    PartitionUse,
    Workload,
    WorkloadOp,
)
from energyopt.profiler.workloads.user import user_workload
from energyopt.schemas.errors import MeasurementError, WorkloadError
from energyopt.schemas.ops import OpKind


def _op(*kernels: Kernel, stage: int = 0, kind: OpKind = OpKind.FORWARD, count: int = 1) -> WorkloadOp:
    partition = Partition(name="all", kernels=tuple(KernelUse(kernel=one) for one in kernels))
    return WorkloadOp(
        stage=stage, chunk=0, kind=kind, partitions=(PartitionUse(partition=partition, count=count),)
    )


def _kernel(name: str = "mm", flops: float = 1e9, memory_bytes: float = 1e6) -> Kernel:
    return Kernel(name=name, flops=flops, memory_bytes=memory_bytes)


def test_a_sound_workload_is_left_as_it_is() -> None:
    ops = (_op(_kernel()), _op(_kernel(), _kernel("norm", 0.0), kind=OpKind.BACKWARD, count=3))
    workload = Workload(name="mine", ops=ops, stages=1)
    assert check_workload("m:f", workload) is workload


@pytest.mark.parametrize(
    ("op", "complaint"),
    [
        (_op(_kernel(flops=math.nan)), "kernel mm has flops nan"),
        (_op(_kernel(memory_bytes=math.inf)), "kernel mm has memory_bytes inf"),
        (_op(_kernel(flops=-1.0)), "kernel mm has flops -1.0"),
        (_op(_kernel(), _kernel(flops=2e9)), "'mm' means two different kernels"),
        (_op(_kernel(), stage=1), "stage 1, chunk 0 is beyond the workload's 1 stage"),
        (_op(_kernel(), kind="sideways"), "'sideways' is no kind"),  # type: ignore[arg-type]
        (_op(_kernel(), count=0), "forward runs mm 1 x 0 times"),
        (_op(), "forward of stage 0 runs no kernel"),
    ],
)
def test_what_cannot_be_measured(op: WorkloadOp, complaint: str) -> None:
    with pytest.raises(WorkloadError, match=f"^m:f: .*{complaint}"):
        check_workload("m:f", Workload(name="mine", ops=(op,), stages=1))


def test_nothing_to_measure() -> None:
    with pytest.raises(WorkloadError, match="has no ops"):
        check_workload("m:f", Workload(name="mine", ops=(), stages=1))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("raise SystemExit(2)", "cannot import 'own_module_.*': SystemExit: 2"),
        ("def f(): raise SystemExit('usage')", "SystemExit: usage"),
        ("def f(): 1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(): return 3", "returned int"),
    ],
)
def test_code_that_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, complaint: str
) -> None:
    """A script that exits, as one that parses its arguments does, must not end the command as if all were well."""
    name = f"own_module_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(WorkloadError, match=complaint):
        user_workload(f"{name}:f")
    sys.modules.pop(name, None)


TIMED = "def f(): return [('forward', 'a', lambda: None)]\n"
STATED = """
from energyopt.profiler.workloads.interface import *

KERNEL = Kernel(name="mm", flops=1e12, memory_bytes=1e9, matrix=True)

def f():
    partition = Partition(name="p", kernels=(KernelUse(kernel=KERNEL),))
    op = WorkloadOp(stage=0, chunk=0, kind="forward", partitions=(PartitionUse(partition=partition),))
    return Workload(name="mine", ops=(op,), stages=1, settings={"model": "m"})
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """`write(text)`: `own_loop.py` in the current folder, as a new process would import it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setitem(sys.modules, "own_loop", None)  # type: ignore[arg-type] # what was there comes back

    def make(text: str) -> Path:
        sys.modules.pop("own_loop", None)
        path = tmp_path / "own_loop.py"
        path.write_text(text)
        return path

    return make


@pytest.mark.parametrize("text", [TIMED, STATED])
def test_a_workload_carries_a_digest_of_its_code(text: str, write: Callable[[str], Path]) -> None:
    source = write(text).read_bytes()
    settings = user_workload("own_loop:f").settings
    assert settings["code_sha256"] == hashlib.sha256(source).hexdigest()[:16]
    assert "model" in settings  # beside what it states itself
    write(text + "# another line\n")
    assert user_workload("own_loop:f").settings["code_sha256"] != settings["code_sha256"]


def test_the_digest_of_a_run_holds_the_code_and_the_versions(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Identity(name="A GPU", uuid="GPU-0", kind="nvml")

    def digest() -> str:
        return digest_of(user_workload("own_loop:f"), Settings(clocks_mhz=(1410,)), board, "cuda")

    write(STATED)
    found = [digest(), digest()]
    assert found[0] == found[1]
    write(STATED + "# another line\n")
    found.append(digest())
    monkeypatch.setattr("energyopt.profiler.request.torch_version", lambda: "99.0")
    found.append(digest())
    monkeypatch.setattr("energyopt.profiler.request.__version__", "99.0")
    found.append(digest())
    assert len(set(found)) == 4


def test_a_run_is_not_resumed_with_other_code(write: Callable[[str], Path], tmp_path: Path) -> None:
    """The kernels' names, operations and bytes are the same, but what they run may differ."""
    request = Request(
        workload="own_loop:f",
        output=tmp_path / "p.parquet",
        device="sim:a100-sxm4-80gb",
        clocks="1410,1200",
        settings=Settings(clocks_mhz=(), windows=2, early_stop=False),
    )
    said: list[str] = []

    def stop(step: str, _share: float) -> None:
        if step.startswith("round 2"):
            raise KeyboardInterrupt

    def run(progress: Callable[[str, float], Any] = lambda *_: None) -> Any:
        return run_profile(request, Voice(progress=progress, say=said.append, warn=said.append))

    write(STATED)
    with pytest.raises(KeyboardInterrupt):
        run(stop)
    write(STATED + "# what runs the kernel has changed\n")
    with pytest.raises(MeasurementError, match=r"p\.parquet\.partial holds an unfinished run .*--restart"):
        run()
    write(STATED)
    said.clear()
    assert {row.samples for row in run().rows} == {2}
    assert "2 windows are there already" in said[0]
