"""The partitions that Kareus cuts a transformer layer into, as its artifact (github.com/ml-energy/kareus) has them.

A microbatch is cut into two nanobatches; a partition computes on one of them while it communicates for the other.
With context parallelism the two nanobatches meet different communication on the same kernels, so that each of these
partitions runs once per layer; where both meet the same, it runs twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from energyopt.schemas.ops import OpKind

NANOBATCHES = 2
RECOMPUTE = "recompute_"
"""Begins the names of forward partitions that a backward runs again before its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutPartition:
    """One partition.

    per_layer: how often it runs in a layer, over both nanobatches.
    window_end: where the artifact lets every window of it end, as a kernel's index; 1434 and 1799 of its published
        plans (cp1_tp8, cp2_tp4) know no other.
    """

    name: str
    per_layer: int
    window_end: int

    def usual_end(self, start: str) -> str | None:
        """Where windows end that start at this kernel; with names that is the partition's end, None."""
        return str(self.window_end) if start.isdigit() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The partitions of a layer, in the order in which the artifact's files list them."""

    name: str
    forward: tuple[LayoutPartition, ...]
    backward: tuple[LayoutPartition, ...]

    def runs(self, kind: OpKind, *, recompute: bool) -> tuple[tuple[str, LayoutPartition], ...]:
        """What an operation of this kind runs: the name that a partition has there, and the partition."""
        if kind is OpKind.FORWARD:
            return tuple((one.name, one) for one in self.forward)
        again = self.forward if recompute else ()
        return (
            *((RECOMPUTE + one.name, one) for one in again),
            *((one.name, one) for one in self.backward),
        )


def _partitions(settings: Mapping[str, tuple[int, int]]) -> tuple[LayoutPartition, ...]:
    return tuple(
        LayoutPartition(name=name, per_layer=per_layer, window_end=end)
        for name, (per_layer, end) in settings.items()
    )


TENSOR = Layout(
    name="tensor parallel",
    forward=_partitions({"fwd_attn": (2, 8), "fwd_mlp": (2, 6)}),
    backward=_partitions({"bwd_attn": (2, 8), "bwd_mlp": (2, 6)}),
)
CONTEXT = Layout(
    name="context parallel",
    forward=_partitions(
        {
            "fwd_qkv_ar": (1, 5),
            "fwd_qkv_ag": (1, 5),
            "fwd_ao_ag": (1, 2),
            "fwd_ao_ar": (1, 2),
            "fwd_mlp": (2, 6),
        }
    ),
    backward=_partitions(
        {
            "bwd_qkv_ar": (1, 5),
            "bwd_qkv_rs": (1, 5),
            "bwd_a_rs": (1, 0),
            "bwd_a_ag": (1, 0),
            "bwd_o_ag": (1, 1),
            "bwd_o_ar": (1, 1),
            "bwd_mlp": (2, 6),
        }
    ),
)
LAYOUTS = (TENSOR, CONTEXT)


def layout_for(context_parallel: int) -> Layout:
    """The layout of a job with this context degree."""
    return CONTEXT if context_parallel > 1 else TENSOR
