"""What a verification finds. Every energy says how many GPUs it covers."""

from dataclasses import dataclass
from enum import StrEnum

from energyopt.planner.verification.statistics import Estimate, Interval
from energyopt.schemas.ops import OpKind


class Verdict(StrEnum):
    """Whether a measured mean keeps to the prediction: its whole 95 % interval inside the tolerance, or outside."""

    WITHIN = "within"
    BEYOND = "beyond"
    UNKNOWN = "cannot tell"
    NOT_JUDGED = "not judged"

    @property
    def judged(self) -> bool:
        """Whether there was something to judge."""
        return self is not Verdict.NOT_JUDGED

    @property
    def fails(self) -> bool:
        """Whether a check that needs this quantity fails: what is not shown to be within has not been verified."""
        return self in (Verdict.BEYOND, Verdict.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A prediction and what was measured, in s or J; both for the same GPUs.

    why: why nothing can be told, or why it was not judged; None where the interval speaks for itself.
    """

    predicted: float | None
    measured: Estimate | None
    deviation: Interval | None
    verdict: Verdict = Verdict.NOT_JUDGED
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage; its predicted time is the pipeline's, its energy covers `boards` GPUs."""

    stage: int
    boards: int
    time: Quantity
    energy: Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The iterations that ran one alternative (0: the plan itself), without stalls.

    `energy` covers all boards with readings. stalls: numbers of the iterations left out as such; stall_share: how
    much longer the mean iteration is with them.
    """

    alternative: int
    numbers: tuple[int, ...]
    stalls: tuple[int, ...]
    stall_share: float
    time: Quantity
    energy: Quantity
    stages: tuple[StageRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What the plan saves, over every iteration that was not skipped, stalls included.

    energy, time: new / old - 1 with the 95 % interval; measured: against baseline runs, else the plan's own
    prediction for every operation at its highest clock. gpus: that both energies cover. baselines: how many runs;
    from two on their differences are in the intervals. iterations: of the plan, of all baselines.
    """

    measured: bool
    gpus: int
    baselines: int = 0
    time: Interval
    energy: Interval | None
    iterations: tuple[int, int] | None = None
    baseline_time_s: float
    baseline_energy_j: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
    """Operations of one (stage, chunk, kind) at one clock, on the stage's slowest rank.

    sm_clock_mhz: asked for, None where nothing was set; achieved_sm_clock_mhz: mean seen; throttle: why it was
        less.
    """

    stage: int
    chunk: int
    op: OpKind
    sm_clock_mhz: int | None
    ops: int
    time: Quantity
    achieved_sm_clock_mhz: float | None
    throttle: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRow:
    """All operations of a stage in one iteration, s: predicted beside measured."""

    stage: int
    measured_s: float
    predicted_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Everything that was found; `scope` and `notes` are what a reader must know first."""

    scope: tuple[str, ...]
    notes: tuple[str, ...]
    tolerance: float
    prediction: str
    sections: tuple[Section, ...]
    saving: Saving | None
    ops: tuple[OpRow, ...]
    work: tuple[WorkRow, ...]
    worst: str | None

    @property
    def failed(self) -> bool:
        """Whether any judged quantity is not shown to be within the tolerance."""
        return any(one.verdict.fails for section in self.sections for one in (section.time, section.energy))
