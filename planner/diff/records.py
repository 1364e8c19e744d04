"""What a comparison finds. All totals of a side cover `Side.gpus` GPUs."""

from dataclasses import dataclass

from energyopt.planner.executions import Executions
from energyopt.planner.wording import relative
from energyopt.schemas.ops import OpKind
from energyopt.schemas.pipeline import Pipeline

OpName = tuple[OpKind, int, int, int | None, int | None]  # kind, chunk, microbatch, and its backward half's


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two files: what its numbers are about.

    `scope` and `wait_power_w` are None where the file does not say (a plan); `orders` names the operations of
    each stage in execution order.
    """

    kind: str
    profile_sha256: str | None
    device_name: str
    device_kind: str
    scope: str | None
    wait_power_w: float | None
    gpus: int
    pipeline: Pipeline
    orders: tuple[tuple[OpName, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One quantity on both sides, None where a side lacks it; the ending of its name is its unit."""

    quantity: str
    old: float | None
    new: float | None

    @property
    def unit(self) -> str | None:
        """`s`, `J`, or None for a ratio."""
        return {"s": "s", "j": "J"}.get(self.quantity.rpartition("_")[2])

    @property
    def absolute(self) -> float | None:
        """The new value less the old one, in the quantity's unit."""
        return None if self.old is None or self.new is None else self.new - self.old

    @property
    def relative(self) -> float | None:
        """(new - old) / |old|; None also where old is 0."""
        return relative(self.new, self.old)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The quantities of one thing that both files may have: a prediction, a baseline, a named point.

    `judged` groups decide whether the new file is worse.
    """

    name: str
    judged: bool
    in_old: bool
    in_new: bool
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStats:
    """The clocks that the operations of one key are given, in MHz."""

    ops: int
    mean_mhz: float
    min_mhz: int
    max_mhz: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRow:
    """Clocks of one (stage, chunk, kind).

    `common` operations are in both files; in `changed` of them the clock differs.
    """

    stage: int
    chunk: int
    kind: OpKind
    common: int
    changed: int
    old: ClockStats | None
    new: ClockStats | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRow:
    """How the operations of one (stage, chunk, kind) are carried out.

    Of the `common` operations, which are in both files, `changed` are carried out differently: `recut` cut their
    microbatch otherwise, and of each partition that any operation of either file does not run plainly,
    `partitions` counts those that run it in another configuration. old, new: of all operations of a file.
    """

    stage: int
    chunk: int
    kind: OpKind
    common: int
    changed: int
    recut: int
    partitions: dict[str, int]
    old: Executions
    new: Executions


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything that was compared.

    executions: of each key where either plan runs an operation otherwise than plainly.

    deadlines: for every point of an old frontier the energy of the cheapest new point that is as fast.
    offers: (iteration_time_s, energy_j) of everything that the new file holds.
    notes: what a reader must know before trusting the numbers.
    """

    old: Side
    new: Side
    groups: tuple[Group, ...]
    clocks: tuple[ClockRow, ...] = ()
    executions: tuple[ExecutionRow, ...] = ()
    deadlines: tuple[tuple[float, Change], ...] = ()
    offers: tuple[tuple[float, float], ...]
    notes: tuple[str, ...]
