"""What `energyopt profile` is asked for."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from energyopt import __version__
from energyopt.applier.devices.interface import Identity
from energyopt.profiler.measurement.profile import torch_version
from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.opening import is_simulated
from energyopt.profiler.workloads.communication import communicates
from energyopt.profiler.workloads.interface import Composite, Kernel, PartitionUse, Workload, WorkloadOp
from energyopt.schemas.files import compact_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One run of the profiler, as the user states it.

    workload: preset, file or `module:function`; shape: what flags set of the job, None where they do not.
    device: `auto`, `nvml:UUID`, `nvml:N` or `sim:NAME`.
    kernels_on: `cuda` or `cpu`, where real kernels run.
    clocks: as `clocks.choose_clocks` reads it; `measurement` gets what it gives.
    site_lock: LOW:HIGH of the lock that the site had set, `none`, or None to find out whether there may be one.
    allow_partial: a rank whose board cannot be measured or clocked helps the others instead of stopping them.
    skip_communication: leave communication kernels out where there are no peers to communicate with.
    overlap: measure partitions as a whole too, with their communication beside their compute kernels.
    """

    workload: str
    output: Path
    shape: Mapping[str, Any] = field(default_factory=dict)
    device: str = "auto"
    kernels_on: str = "cuda"
    clocks: str | None = None
    settings: Settings
    power_limit_w: float | None = None
    site_lock: str | None = None
    restart: bool = False
    allow_partial: bool = False
    skip_communication: bool = False
    overlap: bool = False


def ignored_settings(request: Request, workload: Workload, *, alone: bool) -> tuple[tuple[str, str], ...]:
    """Flags that were given and change nothing, each with the reason.

    alone: whether this is one process, and no launcher's.
    """
    simulated = is_simulated(request.device)
    asked = request.shape.get
    table = (
        (
            "--power-limit-w",
            request.power_limit_w is not None and not simulated,
            "real boards keep their limit",
        ),
        ("--kernels-on cpu", request.kernels_on == "cpu" and simulated, "a simulated GPU runs no code"),
        ("--site-lock-mhz", request.site_lock is not None and simulated, "nobody locks a simulated GPU"),
        ("--allow-partial", request.allow_partial and alone, "one process has no other ranks"),
        (
            "--skip-communication",
            request.skip_communication and not communicates(workload),
            "nothing communicates",
        ),
        (
            "--search-points",
            request.settings.search_points is not None and not request.settings.search,
            "without --search every configuration is measured",
        ),
        ("--comm-sms", bool(asked("comm_sms")) and not communicates(workload), "nothing communicates"),
        (
            "--sequence-parallel",
            bool(asked("sequence_parallel")) and workload.settings.get("tp") == 1,
            "the tensor degree is 1",
        ),
    )
    return tuple((flag, reason) for flag, given, reason in table if given)


def digest_of(workload: Workload, settings: Settings, board: Identity, kernels_on: str) -> str:
    """A digest of everything that decides what is measured, and how."""
    found = {
        "ops": [_op(op) for op in workload.ops],
        "kernels": [_kernel(one) for one in workload.kernels()],
        "workload": dict(workload.settings),
        "settings": asdict(settings),
        "board": asdict(board),
        "kernels_on": kernels_on,
        "torch": torch_version(),
        "tool": __version__,
    }
    if workload.composites:
        found["composites"] = [_composite(one) for one in workload.composites]
        found["split"] = [[op.nanobatches, _uses(op.split)] for op in workload.ops]
    return hashlib.sha256(compact_json(found).encode()).hexdigest()


def _op(op: WorkloadOp) -> list[Any]:
    return [op.stage, op.chunk, op.kind, _uses(op.partitions)]


def _uses(uses: Iterable[PartitionUse]) -> list[Any]:
    return [
        [use.partition.name, use.count, [[one.kernel.name, one.count] for one in use.partition.kernels]]
        for use in uses
    ]


def _composite(composite: Composite) -> list[Any]:
    """What a partition runs as a whole, and as which configuration of what it counts."""
    overlap = composite.kernel.overlap
    assert overlap is not None
    compute = [[*_kernel(use.kernel), use.kernel.matrix, use.count] for use in overlap.compute]
    communication = None if overlap.communication is None else _kernel(overlap.communication)
    where = [composite.kernel.name, composite.kind, composite.partition, composite.nanobatches]
    return [*where, asdict(composite.config), compute, communication, overlap.launch]


def _kernel(kernel: Kernel) -> list[Any]:
    communication = None if kernel.communication is None else asdict(kernel.communication)
    return [kernel.name, kernel.flops, kernel.memory_bytes, kernel.dtype, kernel.launches, communication]
