"""What a calibration did."""

from dataclasses import dataclass

from energyopt.schemas.ops import OpKey
from energyopt.schemas.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """One number of the new profile, before (None: unknown) and now.

    half_width: half the 95 % interval, None where too few runs give none, or it was neither fitted nor known from
        an earlier calibration; kept: why it was not fitted.
    """

    name: str
    unit: str
    before: float | None
    value: float
    half_width: float | None
    kept: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRun:
    """One run beside the fit; energies are of one GPU of each stage with readings, summed."""

    name: str
    iterations: int
    measured_s: float
    fitted_s: float
    measured_j: float
    fitted_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedOp:
    """One key: its operations' clocks in the runs, and by how much its profile's times and energies changed.

    The ratios are means over the new profile's clocks, None without an earlier profile. residual: root mean square
    of its measured times around the fit, relative.
    """

    key: OpKey
    clocks: int
    ops: int
    time_ratio: float | None
    energy_ratio: float | None
    residual: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The new profile and how it came about; `scope` says what each run's numbers cover."""

    profile: Profile
    scope: tuple[str, ...]
    fitted: tuple[Fitted, ...]
    runs: tuple[FittedRun, ...]
    ops: tuple[FittedOp, ...]
    notes: tuple[str, ...]
