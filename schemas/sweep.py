"""sweep.json: many layouts of one model at one global batch, each with the points of its frontier.

Energies and powers cover all GPUs of the job, with all its replicas, for one iteration.
"""

from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from energyopt import __version__
from energyopt.schemas.files import canonical_json, read_json, write_bytes
from energyopt.schemas.nodes import Node, check_header

FORMAT = "energyopt-sweep"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the job is laid out over its GPUs.

    profile: the file that its costs come from.
    microbatch_size: sequences in a microbatch.
    layers_per_stage: layers of each virtual stage, in the model's order.
    """

    profile: str
    stages: int
    chunks_per_stage: int
    schedule: str
    microbatches: int
    microbatch_size: int
    tensor_parallel: int
    context_parallel: int
    data_parallel: int
    layers_per_stage: tuple[int, ...]

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.stages * self.tensor_parallel * self.context_parallel * self.data_parallel

    @property
    def name(self) -> str:
        """A short name: `tp8 pp4x2 dp4 mb1x32 1f1b` has 2 chunks on each of 4 stages and 32 microbatches of 1."""
        chunks = f"x{self.chunks_per_stage}" if self.chunks_per_stage > 1 else ""
        context = f" cp{self.context_parallel}" if self.context_parallel > 1 else ""
        return (
            f"tp{self.tensor_parallel}{context} pp{self.stages}{chunks} dp{self.data_parallel} "
            f"mb{self.microbatch_size}x{self.microbatches} {self.schedule}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One plan of a layout; peak_power_w is None where nobody found out."""

    iteration_time_s: float
    energy_j: float
    lower_bound_j: float
    average_power_w: float
    peak_power_w: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLayout:
    """A layout, what it takes and costs at the highest clock, and its plans, fastest first.

    frontier: the file that its frontier was kept in, if it was.
    """

    layout: Layout
    max_clock_time_s: float
    max_clock_energy_j: float
    points: tuple[SweepPoint, ...]
    frontier: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedLayout:
    """A layout that could not be planned, and why."""

    layout: Layout
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A combination that makes no layout, and why; what is asked of it in words."""

    combination: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What a sweep found.

    max_slowdown: the time that layouts are ranked in, relative to the least max-clock time of all.
    """

    model: str
    device_name: str
    device_kind: str
    scope: str
    global_batch: int
    sequence_length: int
    max_slowdown: float
    layouts: tuple[PlannedLayout, ...]
    failed: tuple[FailedLayout, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens of an iteration."""
        return self.global_batch * self.sequence_length


def write_sweep(path: Path, sweep: Sweep) -> None:
    """Write a sweep atomically; equal sweeps give equal bytes."""
    write_bytes(path, canonical_json(sweep_to_json(sweep)).encode())


def sweep_to_json(sweep: Sweep) -> dict[str, Any]:
    """All members of the file."""
    header = {"format": FORMAT, "schema_version": SCHEMA_VERSION, "tool_version": __version__}
    return header | asdict(sweep)


def read_sweep(path: Path) -> Sweep:
    """Read and check a sweep file.

    Raises:
        FileFormatError: names the file and the field at fault.
    """
    root = Node(path, "$", read_json(path))
    check_header(root, FORMAT, SCHEMA_VERSION)
    layouts = tuple(_planned(node) for node in root.field("layouts").items())
    if not layouts:
        root.field("layouts").fail("expected at least one layout")
    return Sweep(
        model=root.field("model").text(),
        device_name=root.field("device_name").text(),
        device_kind=root.field("device_kind").text(),
        scope=root.field("scope").text(),
        global_batch=root.field("global_batch").integer(minimum=1),
        sequence_length=root.field("sequence_length").integer(minimum=1),
        max_slowdown=_positive(root.field("max_slowdown")),
        layouts=layouts,
        failed=tuple(
            FailedLayout(layout=_layout(node.field("layout")), error=node.field("error").text())
            for node in root.field("failed").items()
        ),
        left_out=tuple(
            LeftOut(combination=node.field("combination").text(), reason=node.field("reason").text())
            for node in root.field("left_out").items()
        ),
    )


def _layout(node: Node) -> Layout:
    return Layout(
        profile=node.field("profile").text(),
        schedule=node.field("schedule").text(),
        layers_per_stage=tuple(one.integer(minimum=0) for one in node.field("layers_per_stage").items()),
        **{name: node.field(name).integer(minimum=1) for name in _COUNTS},
    )


_COUNTS = (
    "stages",
    "chunks_per_stage",
    "microbatches",
    "microbatch_size",
    "tensor_parallel",
    "context_parallel",
    "data_parallel",
)


def _planned(node: Node) -> PlannedLayout:
    frontier, points = node.optional("frontier"), node.field("points")
    found = tuple(_point(one) for one in points.items())
    if not found or any(slow.iteration_time_s <= fast.iteration_time_s for fast, slow in pairwise(found)):
        points.fail("expected points, each slower than the one before")
    return PlannedLayout(
        layout=_layout(node.field("layout")),
        max_clock_time_s=_positive(node.field("max_clock_time_s")),
        max_clock_energy_j=_positive(node.field("max_clock_energy_j")),
        points=found,
        frontier=None if frontier is None else frontier.text(),
    )


def _point(node: Node) -> SweepPoint:
    names = ("iteration_time_s", "energy_j", "lower_bound_j", "average_power_w")
    peak = node.optional("peak_power_w")
    return SweepPoint(
        **{name: _positive(node.field(name)) for name in names},
        peak_power_w=None if peak is None else _positive(peak),
    )


def _positive(node: Node) -> float:
    value = node.number(minimum=0.0)
    if value == 0:
        node.fail("expected a number above 0, found 0")
    return value
