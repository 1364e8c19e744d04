"""Real Megatron-Core jobs in processes of their own; stand-ins for its modules, and a recorder, in this one."""

import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

LIMIT_S = 120.0  # for a machine that is busy with other things; a job takes a second or two
NODE = Path(__file__).with_name("node.py")

PACKAGE = "megatron.core.pipeline_parallel"
FIRST = (
    "forward_step_func, data_iterator, model, num_microbatches, input_tensor, forward_data_store, config, "
)
OPTIONS = (
    "collect_non_loss_data=False, checkpoint_activations_microbatch=None, is_first_microbatch=False, "
    "current_microbatch=None, "
)
BACKWARD = "input_tensor, output_tensor, output_tensor_grad, model_type, config"
FORWARD = {  # the parameters of forward_step
    "0.12.3": FIRST + OPTIONS + "encoder_decoder_xattn=False",
    "0.13.1": FIRST + OPTIONS + "encoder_decoder_xattn=False, vp_stage=None",
    "0.14.0": FIRST + "cp_group_size, " + OPTIONS + "vp_stage=None, is_last_stage=True",
    "0.15.3": FIRST + "cp_group_size, " + OPTIONS + "vp_stage=None, is_last_stage=True",
    "0.16.1": FIRST + "cp_group_size, " + OPTIONS + "vp_stage=None, is_last_stage=True",
}
COMBINED = (
    "forward_step_func, data_iterator, f_model, num_microbatches, input_tensor, forward_data_store, b_model, "
    "b_input_tensor, b_output_tensor, b_output_tensor_grad, config, f_model_chunk_id=None, pre_forward=None, "
    "pre_backward=None, post_forward=None, post_backward=None, collect_non_loss_data=False, "
    "checkpoint_activations_microbatch=None, is_first_microbatch=False, current_microbatch=None, "
    "encoder_decoder_xattn=False"
)
WITH_COMBINED = ("0.14.0", "0.15.3", "0.16.1")
SCHEDULES = ("no_pipelining", "pipelining_without_interleaving", "pipelining_with_interleaving")


@dataclass(frozen=True, kw_only=True)
class Rank:
    """What one rank wrote (None if it failed), and what its hooks and the node saw of it."""

    result: dict[str, Any] | None
    seen: dict[str, Any]

    @property
    def training(self) -> list[dict[str, Any]]:
        return [iteration for iteration in self.seen["iterations"] if iteration["training"]]

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        return [iteration for iteration in self.seen["iterations"] if not iteration["training"]]


class Jobs:
    """Runs jobs in forks of one process that has loaded Megatron-Core."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.node = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(NODE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, world: int, *arguments: str, hooked: bool = True, combined: bool = False) -> list[Rank]:
        self.count += 1
        out = self.folder / str(self.count)
        out.mkdir()
        order = {"world": world, "arguments": arguments, "hooked": hooked, "combined": combined}
        assert self.node.stdin is not None and self.node.stdout is not None
        self.node.stdin.write(json.dumps(order | {"out": str(out)}) + "\n")
        self.node.stdin.flush()
        assert select.select([self.node.stdout], [], [], LIMIT_S)[0], "the job does not end"
        assert json.loads(self.node.stdout.readline()) == [0] * world
        return [self._rank(out, rank) for rank in range(world)]

    def _rank(self, out: Path, rank: int) -> Rank:
        result, seen = out / f"rank-{rank}.json", out / f"seen-{rank}.json"
        return Rank(
            result=json.loads(result.read_text()) if result.exists() else None,
            seen=json.loads(seen.read_text()),
        )

    def close(self) -> None:
        os.killpg(self.node.pid, signal.SIGKILL)
        self.node.communicate()


class Output:
    """Stands for a tensor."""


def function(name: str, parameters: str, body: Callable[..., Any], module: ModuleType) -> None:
    """Put a function with these parameters into the module; the body gets them by name."""
    names = {"body": body, "__name__": module.__name__}
    exec(f"def {name}({parameters}):\n    return body(**locals())", names)
    vars(module)[name] = names[name]


def empty_module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def step_forward(input_tensor: Any, **_: Any) -> tuple[Any, int]:
    """As in all versions, a list comes out where a list went in."""
    return ([Output()] if isinstance(input_tensor, list) else Output()), 0


def step_both(f_model: Any, **_: Any) -> tuple[Any, Any, Any]:
    return (Output() if f_model else None), 0, None


class World:
    """A version: its modules, and the calls that its interleaved schedule makes."""

    def __init__(self, version: str, monkeypatch: pytest.MonkeyPatch, torch: Any) -> None:
        monkeypatch.setitem(sys.modules, "torch", torch)
        self.version, self.chunk = version, None
        self.run, self.step = self.one_by_one, step_forward
        empty_module("megatron.core.package_info", monkeypatch).__version__ = version  # type: ignore[attr-defined]
        self.module = empty_module(f"{PACKAGE}.schedules", monkeypatch)
        function("forward_step", FORWARD[version], lambda **call: self.step(**call), self.module)  # noqa: PLW0108 - tests exchange step
        extra = ", pipeline_model_parallel_size=1" if version == "0.14.0" else ""
        function("backward_step", BACKWARD + extra, lambda **_: None, self.module)
        for name in SCHEDULES:
            parameters = (
                "*, forward_step_func, data_iterator, model, num_microbatches, forward_only=False, **more"
            )
            function(f"forward_backward_{name}", parameters, self.schedule, self.module)
        function("get_model_config", "model", lambda model: model.config, self.module)
        self.module.parallel_state = self.parallel_state()  # type: ignore[attr-defined]
        if version in WITH_COMBINED:
            self.add_combined(monkeypatch)

    def parallel_state(self) -> ModuleType:
        state = ModuleType("megatron.core.parallel_state")
        sizes = {"pipeline": 4, "tensor": 2, "context": 2}
        for kind, size in sizes.items():
            name = f"get_{kind}_{'model_' if kind != 'context' else ''}parallel_world_size"
            function(name, "", lambda size=size: size, state)
        function("get_pipeline_model_parallel_rank", "", lambda: 3, state)
        function(
            "get_data_parallel_world_size",
            "with_context_parallel=False, partial_data_parallel=False",
            lambda with_context_parallel, **_: 6 if with_context_parallel else 3,
            state,
        )
        function("get_virtual_pipeline_model_parallel_rank", "", lambda: self.chunk, state)
        return state

    def add_combined(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.combined = empty_module(f"{PACKAGE}.combined_1f1b", monkeypatch)
        function("combined_forward_backward_step", COMBINED, step_both, self.combined)
        name = "combined_1f1b_schedule_for_no_pipelining"
        function(name, "config", lambda **_: None, self.combined)
        vars(self.module)[name] = vars(self.combined)[name]

    def schedule(self, num_microbatches: int, **arguments: Any) -> str:
        self.run(num_microbatches, **arguments)
        return "data"

    def one_by_one(self, microbatches: int, forward_only: bool, **_: Any) -> None:
        """All forwards, then all backwards, of two chunks."""
        outputs = [self.forward(m, c, m % 2 == 0) for m in range(microbatches) for c in range(2)]
        for output in outputs if not forward_only else []:
            self.module.backward_step(None, output, None, "decoder", None)

    def forward(self, microbatch: int, chunk: int, as_list: bool = False) -> Any:
        """Call forward_step as this version's interleaved schedule does."""
        first = (None, None, SimpleNamespace(), 4, [None] if as_list else None, [], None)
        if self.version == "0.12.3":
            self.chunk = chunk
            return self.module.forward_step(*first, False, None, False, current_microbatch=microbatch)[0]
        place = {"current_microbatch": microbatch, "vp_stage": chunk}
        if self.version == "0.13.1":
            return self.module.forward_step(*first, False, None, False, **place)[0]
        return self.module.forward_step(*first, cp_group_size=1, collect_non_loss_data=False, **place)[0]

    def iterate(self, microbatches: int = 2, forward_only: bool = False, **arguments: Any) -> Any:
        """Run an iteration as a user does."""
        model = [SimpleNamespace(config=SimpleNamespace(microbatch_group_size_per_vp_stage=4))] * 2
        defaults = {"forward_step_func": None, "data_iterator": None, "model": model}
        defaults |= {"num_microbatches": microbatches, "forward_only": forward_only}
        return self.module.forward_backward_pipelining_with_interleaving(**defaults | arguments)


@pytest.fixture(scope="session")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    jobs = Jobs(tmp_path_factory.mktemp("megatron"))
    yield jobs
    jobs.close()


@pytest.fixture
def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("megatron_node", NODE)
    assert spec is not None and spec.loader is not None
    node = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(node)
    return node.Recorder()


@pytest.fixture
def torch() -> SimpleNamespace:
    """As much of torch as the adapter asks for, on a GPU."""
    cuda = SimpleNamespace(
        is_initialized=lambda: True, is_current_stream_capturing=lambda: False, current_device=lambda: 1
    )
    distributed = SimpleNamespace(get_rank=lambda: 13, get_world_size=lambda: 48)
    return SimpleNamespace(cuda=cuda, distributed=distributed)


@pytest.fixture(params=FORWARD)
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, torch: Any) -> World:
    return World(request.param, monkeypatch, torch)


@pytest.fixture
def newest(monkeypatch: pytest.MonkeyPatch, torch: Any) -> World:
    return World("0.16.1", monkeypatch, torch)
