"""One of two ranks that run layers with regions: RANK OUT PORT; writes what it computed, noted and said."""

import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from energyopt.applier.overlap import collectives
from energyopt.applier.overlap.collectives import COPY, GATHER, REDUCE, REDUCE_COPY, SCATTER, Exchange
from energyopt.applier.overlap.communicators import Communicators
from energyopt.applier.overlap.following import Following
from energyopt.applier.overlap.ways import Ways, planned_ways
from energyopt.applier.runtime.off import OffSession
from energyopt.applier.runtime.reports import Reports
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import Execution, PartitionConfig
from energyopt.schemas.planned_ops import PlannedOp

spec = importlib.util.spec_from_file_location("layers", Path(__file__).with_name("layers.py"))
assert spec is not None and spec.loader is not None
layers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(layers)
EVENTS = layers.EVENTS

torch.set_num_threads(1)
rank, out = int(sys.argv[1]), Path(sys.argv[2])
store = dist.TCPStore("127.0.0.1", int(sys.argv[3]), 2, rank == 0)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
found: dict[str, Any] = {}
Configs = dict[str, PartitionConfig]


def overlapped(launch: str, sms: int | None) -> PartitionConfig:
    return PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=sms, comm_launch=launch)


class Planned(Following):
    """A session that runs a forward and a backward whose partitions are planned."""

    def __init__(self, forward: Configs, backward: Configs) -> None:
        kinds = {OpKind.FORWARD: forward, OpKind.BACKWARD: backward}
        ops = tuple(
            PlannedOp(
                op=kind,
                chunk=0,
                microbatch=0,
                sm_clock_mhz=1,
                nanobatches=2,
                partitions=tuple(configs.items()),
            )
            for kind, configs in kinds.items()
        )
        self.reports = Reports(rank)
        self.ways = Ways(planned_ways(ops), self.reports, "one plan")
        self.ways.follow(True)
        self.ways.iteration(None, 1)

    def begin(self, kind: str) -> None:
        self.ways.begin((kind, 0, 0))


groups = Communicators()
assert groups.make(Planned({"mlp": overlapped("up", 4)}, {"mlp": overlapped("up", 8)}).ways)
names = {id(groups.group(sms)): sms for sms in (4, 8)}
found["groups"] = {
    "distinct": len({id(groups.group(sms)) for sms in (None, 4, 8)}),
    "unknown": groups.group(5) is groups.group(None),
}

begin, wait = collectives.start, collectives.Started.wait


def noted_start(collective: Any, tensor: Any, group: Any, size: int) -> Any:
    EVENTS.append(f"start {collective} in {names.get(id(group))}")
    return begin(collective, tensor, group, size)


def noted_wait(started: Any) -> Any:
    EVENTS.append("wait")
    return wait(started)


collectives.start, collectives.Started.wait = noted_start, noted_wait


def inputs(shape: str) -> list[torch.Tensor]:
    rows = layers.TOKENS if shape == "tensor" else layers.TOKENS // 2
    seed = 7 if shape == "tensor" else 7 + rank  # a share of a sequence is each rank's own
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, layers.WIDTH, generator=generator, requires_grad=True) for _ in range(2)]


def train(shape: str, run: Callable[..., Any], session: Any = None, backwards: int = 1) -> dict[str, Any]:
    """Outputs, loss and all gradients, bit for bit, and what ran in which order."""
    weights = [layers.Weights(seed) for seed in range(layers.LAYERS)]
    parts = inputs(shape)
    EVENTS.clear()
    if session is not None:
        session.begin("forward")
    outputs = run(weights, parts)
    loss = sum((part * part).mean() * (place + 1) for place, part in enumerate(outputs))
    forward = EVENTS.copy()
    EVENTS.clear()
    if session is not None:
        session.begin("backward")
    for turn in range(backwards):
        loss.backward(retain_graph=turn + 1 < backwards)
    tensors = [*outputs, *(one.grad for one in parts), *(one.grad for own in weights for one in own.all())]
    return {
        "numbers": [loss.item().hex(), *(None if one is None else repr(one.tolist()) for one in tensors)],
        "forward": forward,
        "backward": EVENTS.copy(),
        "said": [] if session is None else list(session.reports.said),
    }


def with_regions(shape: str, session: Any) -> Callable[..., Any]:
    run = getattr(layers, f"overlapped_{shape}")
    return lambda weights, parts: run(session, groups, weights, parts)


def planned(shape: str, forward: Configs, backward: Configs, **how: int) -> dict[str, Any]:
    session = Planned(forward, backward)
    return train(shape, with_regions(shape, session), session, **how)


found["plain tensor"] = train("tensor", layers.plain_tensor)
found["plain sequence"] = train("sequence", layers.plain_sequence)
for shape in ("tensor", "sequence"):
    found[f"{shape} without a plan"] = train(shape, with_regions(shape, layers.Plain()))
for block in ("attention", "mlp"):
    for launch in layers.FORWARD[block]:
        for back in layers.BACKWARD[block]:
            found[f"tensor {block} {launch} {back}"] = planned(
                "tensor", {block: overlapped(launch, 4)}, {block: overlapped(back, 8)}
            )
for launch in layers.FORWARD["mlp"]:
    for back in layers.BACKWARD["mlp"]:
        found[f"sequence {launch} {back}"] = planned(
            "sequence",
            {"gathering": overlapped(launch, 4), "scattering": overlapped(launch, 4)},
            {"gathering": overlapped(back, 8), "gathering_back": overlapped(back, 8)},
        )

# what does not go as planned
only = {"mlp": overlapped("no such kernel", 4)}, {"mlp": overlapped("no such backward", 8)}
found["never reached"] = planned("tensor", *only)
sequential = PartitionConfig(execution=Execution.SEQUENTIAL, comm_sms=4)
found["sequential"] = planned("tensor", {"mlp": sequential}, {"mlp": sequential})
both = (
    {"mlp": overlapped("activation", 4)},
    {"mlp": overlapped("activation.backward", 8), "mlp_recompute": overlapped("down_proj", 4)},
)
found["without a plan twice"] = train("tensor", with_regions("tensor", layers.Plain()), backwards=2)
found["backward twice"] = planned("tensor", *both, backwards=2)

for reentrant in (False, True):
    session = Planned(*both)
    run = with_regions("tensor", session)
    found[f"checkpoint {reentrant}"] = train(
        "tensor",
        lambda weights, parts, run=run, reentrant=reentrant: checkpoint(
            lambda *parts: tuple(run(weights, list(parts))), *parts, use_reentrant=reentrant
        ),
        session,
    )


def no_gradient() -> None:
    session = Planned(*both)
    session.begin("forward")
    weights = [layers.Weights(seed) for seed in range(layers.LAYERS)]
    with torch.no_grad():
        plain = layers.plain_tensor(weights, inputs("tensor"))
        EVENTS.clear()
        outputs = with_regions("tensor", session)(weights, inputs("tensor"))
    found["no gradient"] = {
        "same": all(torch.equal(one, other) for one, other in zip(plain, outputs, strict=True)),
        "grown": any(one.requires_grad for one in outputs),
        "forward": EVENTS.copy(),
    }


def one_fails() -> None:
    """In the region, on one rank, before its launch point; the other one gets its sum, and so does what follows."""
    session = Planned(*both)
    session.begin("forward")
    mine = torch.full((2,), float(rank + 1), requires_grad=True)
    joined = None
    try:
        with session.overlap("mlp", REDUCE, groups, mine) as region:
            if rank == 0:
                raise KeyError("out of data")
            region.launch_point("activation")
            joined = region.join()
    except KeyError as error:
        joined = f"raised {error}"
    if rank == 1:
        joined = joined.tolist()
    after = []
    for sms in (4, None):
        value = torch.ones(1)
        dist.all_reduce(value, group=groups.group(sms))
        after.append(value.item())
    found["one fails"] = {"joined": joined, "after": after}


def by_itself() -> None:
    """One region in all the ways it can be held."""
    session = Planned(*both)
    session.begin("forward")
    value = torch.ones(2, requires_grad=True)
    with session.overlap("mlp", REDUCE, groups, value) as region:
        handed = region.launch_point("activation", value)
    late = region.launch_point("down_proj", value)
    first, again = region.join(), region.join()
    first += 1.0  # what was communicated is the caller's own
    try:
        (first * first).sum().backward(create_graph=True)
        value.grad.sum().backward()
        twice = "differentiated"
    except RuntimeError as error:
        twice = str(error)
    try:
        session.overlap("mlp", REDUCE, groups, value, value)
        inputs = "taken"
    except TypeError as error:
        inputs = str(error)
    found["by itself"] = {
        "handed back": handed is value and late is value,
        "joined once": first is again,
        "sum": first.tolist(),
        "twice": twice,
        "inputs": inputs,
    }


def pairs() -> None:
    """Each exchange by itself is the sum over the ranks that it says, and its gradient is its mirror's."""
    results = {}
    for name, exchange in {"R": REDUCE, "C": COPY, "RC": REDUCE_COPY, "G": GATHER, "S": SCATTER}.items():
        value = torch.tensor([1.0, 2.0]) * (rank + 1)
        value.requires_grad_()
        with OffSession().overlap("any", exchange, groups, value) as region:
            pass
        result = region.join()
        weight = torch.arange(1.0, result.numel() + 1) * (rank + 1)
        (result * weight).sum().backward()
        assert value.grad is not None
        results[name] = [result.tolist(), value.grad.tolist()]
    found["pairs"] = results


def without_dimensions() -> None:
    found["without dimensions"] = []
    for exchange in (GATHER, SCATTER):
        try:
            with OffSession().overlap("any", exchange, groups, torch.tensor(1.0)):
                pass
        except ValueError as error:
            found["without dimensions"].append(str(error))


def whole_numbers() -> None:
    """Gathered token numbers look up rows of a weight: rank r asks for row r of both."""
    table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    exchange = Exchange(forward=GATHER.forward, backward=None)
    ids = torch.tensor([rank])
    with OffSession().overlap("any", exchange, groups, ids, then=lambda ids: table[ids]) as region:
        pass
    result = region.join()
    (result * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert table.grad is not None
    found["whole numbers"] = [result.tolist(), table.grad.tolist()]


def in_ddp() -> None:
    """A weight that `then` uses is one of the model's for DDP, whether it looks for unused ones or not."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([2.0]))

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            with OffSession().overlap("any", REDUCE, groups, value, then=lambda v: v * self.weight) as region:
                pass
            return region.join()

    found["ddp"] = []
    for unused in (False, True):
        model = DistributedDataParallel(Model(), find_unused_parameters=unused)
        for _ in range(2):
            model.zero_grad()
            (model(torch.ones(1)) * (rank + 1)).sum().backward()
        found["ddp"].append(model.module.weight.grad.item())


def uneven() -> None:
    try:
        with OffSession().overlap("any", SCATTER, groups, torch.ones(3)):
            pass
    except ValueError as error:
        found["uneven"] = str(error)


def weights_between() -> None:
    """Weights that `then` uses get their gradient though what is communicated has none."""
    weight = torch.ones(2, requires_grad=True)
    exchange = Exchange(forward=REDUCE.forward, backward=REDUCE.forward)
    with OffSession().overlap("any", exchange, groups, torch.ones(2), then=lambda v: v * weight) as region:
        pass
    (region.join() * (rank + 1)).sum().backward()
    assert weight.grad is not None
    found["weights between"] = weight.grad.tolist()


def agreements() -> None:
    """All follow or none."""
    plan = Planned(*both).ways

    def ask(mine: str | None, limit_s: float = 60.0, first_s: float = 0.0) -> list[Any]:
        time.sleep(first_s)
        ways = Ways(plan._planned, Reports(rank), mine)
        began = time.monotonic()
        made = Communicators().make(ways, time.monotonic() + limit_s)
        took = time.monotonic() - began
        ways.follow(made)
        ways.iteration(None, 1)
        ways.begin(("forward", 0, 0))
        return [made, ways.nanobatches(), str(ways.partition("mlp")), list(ways._reports.said), took]

    found["agree"] = ask("plan")
    found["one is off"] = ask("plan" if rank == 0 else None)
    other = {"mlp": overlapped("up", 4), "attention": overlapped("rope", 4 + rank)}
    stages = Planned(other, {}).ways
    began = time.monotonic()
    agreed = Communicators().make(stages)
    found["other counts"] = [agreed, list(stages._reports.said), time.monotonic() - began]
    found["other plans"] = ask(f"plan {rank}")
    found["one comes too late"] = ask("plan", 0.5, 1.5 * rank)
    from energyopt.applier.overlap import communicators

    whole = communicators._bounded_group
    if rank == 0:
        communicators._bounded_group = lambda *_: 1 / 0
    found["one cannot make them"] = ask("plan", 60.0) if rank == 0 else None
    if rank == 1:
        communicators._bounded_group = lambda *_: None  # which would wait for the other rank
        found["one cannot make them"] = ask("plan", 60.0)
    communicators._bounded_group = whole
    found["and all is well again"] = ask("plan")


def cost_us() -> None:
    """Of a launch point: without a plan, and where another kernel is planned."""
    value = torch.ones(1, requires_grad=True)
    costs = {}
    for name, session in {"unplanned": layers.Plain(), "planned": Planned(*both)}.items():
        if name == "planned":
            session.begin("forward")
        alone = SimpleNamespace(size=1, group=lambda _sms: None)
        with session.overlap("mlp", REDUCE, alone, value) as region:
            rounds = []
            for _ in range(5):
                began = time.perf_counter()
                for _ in range(1000):
                    region.launch_point("rope", value)
                rounds.append((time.perf_counter() - began) * 1e3)
        costs[name] = min(rounds)
    began = time.perf_counter()
    for _ in range(1000):
        with layers.Plain().overlap("mlp", REDUCE, alone, None):
            pass
    costs["empty region"] = (time.perf_counter() - began) * 1e3
    began = time.perf_counter()
    for _ in range(1000):
        with layers.Plain().overlap("mlp", REDUCE, alone, value):
            pass
    costs["differentiable region"] = (time.perf_counter() - began) * 1e3
    found["cost_us"] = costs


for scenario in (no_gradient, one_fails, by_itself, pairs, uneven, without_dimensions):
    scenario()
for scenario in (weights_between, whole_numbers, in_ddp, agreements, cost_us):
    scenario()
out.write_text(json.dumps(found))
dist.destroy_process_group()
