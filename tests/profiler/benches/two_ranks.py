"""One of two ranks that run partitions on a torch bench with gloo: `python two_ranks.py RANK FOLDER`.

Into the folder goes `rankN.json`: for every collective and every launch (or none), what happened in which order in
one run, what the compute kernels gave and what all tensors of the communication hold afterwards.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from energyopt.profiler.benches.torch_bench import TorchBench, open_torch_bench
from energyopt.profiler.workloads.composites import composite
from energyopt.profiler.workloads.interface import Collective, Communication, Kernel, KernelUse, Partition
from energyopt.profiler.workloads.layers.communication import Exchange, communication_kernel
from energyopt.profiler.workloads.simple import callable_kernel
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import PLAIN, Execution, PartitionConfig

NAMES = ("norm", "product", "rope")
BYTES = 64.0
LIMIT = timedelta(seconds=60)


class Rank:
    """Runs composites and notes what they do."""

    def __init__(self, rank: int, bench: TorchBench) -> None:
        self.rank, self.bench = rank, bench
        self.events: list[str] = []
        self.results: dict[str, list[float]] = {}

    def run(self, collective: Collective, launch: str | None) -> dict[str, Any]:
        """Prepare and run a partition twice more; what the last run did, and what it left."""
        kernel = self._kernel(self._partition(collective), launch)
        torch.manual_seed(self.rank)
        drawn: list[torch.Tensor] = []
        randn = torch.randn
        torch.randn = lambda *size, **how: drawn.append(randn(*size, **how)) or drawn[-1]  # type: ignore[func-returns-value]
        self.bench.prepare(kernel)
        torch.randn = randn
        self.bench.run(kernel, 1)
        self.events.clear()
        self.bench.run(kernel, 1)
        tensors = [tensor.tolist() for tensor in drawn if tensor.dim() == 1]
        return {"events": list(self.events), "computed": dict(self.results), "tensors": tensors}

    def run_together(self, store: dist.Store) -> list[str]:
        """Rank 1 launches only when rank 0 has launched and computed: it hangs where a launch blocks."""
        runs = iter(range(100))

        def early() -> None:
            number = next(runs)
            if self.rank == 1:
                store.wait([f"computed {number}"], LIMIT)
            self.number = number

        def late() -> None:
            if self.rank == 0:
                store.set(f"computed {self.number}", "yes")

        kernels = [callable_kernel("early", early), callable_kernel("late", late)]
        partition = Partition(
            name="pair",
            kernels=tuple(KernelUse(kernel=one) for one in (*kernels, self._talk(Collective.ALL_REDUCE))),
            launch_points=("late",),
        )
        kernel = self._kernel(partition, "late")
        self.bench.prepare(kernel)
        self.events.clear()
        self.bench.run(kernel, 1)
        return list(self.events)

    def _kernel(self, partition: Partition, launch: str | None) -> Kernel:
        config = PLAIN
        if launch is not None:
            config = PartitionConfig(execution=Execution.OVERLAPPED, comm_launch=launch)
        return composite(OpKind.FORWARD, partition, 2, config).kernel

    def _partition(self, collective: Collective) -> Partition:
        kernels = [self._compute(name) for name in NAMES]
        uses = [KernelUse(kernel=kernels[0]), KernelUse(kernel=self._talk(collective))]
        uses += [KernelUse(kernel=kernels[1], count=2), KernelUse(kernel=kernels[2])]
        return Partition(name="attention", kernels=tuple(uses), launch_points=NAMES)

    def _compute(self, name: str) -> Kernel:
        def prepare(place: Any) -> Callable[[], object]:
            left, right = (place.torch.randn(8, 8) for _ in range(2))

            def step() -> None:
                self.events.append(name)
                self.results[name] = (left @ right).flatten().tolist()

            return step

        return Kernel(name=name, flops=1.0, memory_bytes=1.0, dtype="float32", prepare=prepare)

    def _talk(self, collective: Collective) -> Kernel:
        talk = Communication(collective=collective, message_bytes=BYTES, group="tensor", ranks=2)
        kernel = communication_kernel("talk", talk, "float32")

        def prepare(place: Any) -> Exchange:
            assert kernel.prepare is not None
            exchange = kernel.prepare(place)
            assert isinstance(exchange, Exchange)
            return self._noted(exchange)

        return replace(kernel, prepare=prepare)

    def _noted(self, exchange: Exchange) -> Exchange:
        def run() -> None:
            self.events.append("talk")
            exchange.run()

        def start() -> Any:
            self.events.append("start")
            work = exchange.start()
            return SimpleNamespace(wait=lambda: self.events.append("wait") or work.wait())  # type: ignore[func-returns-value]

        return Exchange(run=run, start=start)


def main(rank: int, folder: Path) -> None:
    """Be a rank."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder / 'meet'}", rank=rank, world_size=2, timeout=LIMIT)
    device: Any = SimpleNamespace(close=lambda: None)
    bench = open_torch_bench(device, torch_device="cpu", dtype="float32", groups=lambda _: dist.group.WORLD)
    one = Rank(rank, bench)
    found: dict[str, Any] = {
        f"{collective} {launch}": one.run(collective, launch)
        for collective in Collective
        for launch in (None, *NAMES)
    }
    found["together"] = one.run_together(dist.FileStore(str(folder / "store"), 2))
    (folder / f"rank{rank}.json").write_text(json.dumps(found))
    bench.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
