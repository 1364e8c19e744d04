"""Training jobs with the adapter in: in processes of their own, and in this one."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.adapters.registry import adapter_for

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "training" / "torch_job.py"
MODULE = "torch.distributed.pipelining.schedules"
HOOKED = {
    "_PipelineStageBase": ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk"),
    "_PipelineSchedule": ("_maybe_compute_loss",),
    "PipelineScheduleSingle": ("step",),
    "PipelineScheduleMulti": ("step",),
    "_PipelineScheduleRuntime": ("register_custom_function",),
}


@pytest.fixture(scope="session")
def train() -> Callable[..., None]:
    """Runs jobs as ranks.py takes them; their folders are made."""

    def run(*jobs: dict[str, Any]) -> None:
        for job in jobs:
            Path(job["out"]).mkdir(parents=True)
        command = [sys.executable, str(HERE / "ranks.py"), str(SCRIPT), json.dumps(jobs)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr

    return run


@pytest.fixture
def recorder() -> Any:
    spec = importlib.util.spec_from_file_location("torch_pipelining_ranks", HERE / "ranks.py")
    assert spec is not None and spec.loader is not None
    ranks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ranks)
    return ranks.Recorder()


@pytest.fixture
def schedules(monkeypatch: pytest.MonkeyPatch) -> Any:
    """PyTorch's module, which is as it was after the test."""
    pytest.importorskip("torch")
    module = importlib.import_module(MODULE)
    for owner, names in HOOKED.items():
        for name in names:
            monkeypatch.setattr(getattr(module, owner), name, getattr(getattr(module, owner), name))
    return module


@pytest.fixture
def hooked(schedules: Any, recorder: Any) -> Any:
    """PyTorch's module with the adapter in."""
    adapter_for(MODULE).install(schedules, recorder)
    return schedules


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    """This process as the only rank of a pipeline: all stages are on it, and nothing is sent."""
    dist = pytest.importorskip("torch.distributed")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    yield
    dist.destroy_process_group()
