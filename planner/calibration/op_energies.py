"""The power of operations and of waiting, from the energies of iterations.

A GPU's energy in an iteration is the sum over its operations of time x power, and wait power for the rest of
the time. The power of an operation of one key at a clock is a sum of shapes with non-negative weights: without a
profile a constant and ramps over the clocks (rising with the clock, as measured boards do; flat where a power limit
holds them), with one the profile's own power.

Runs of one job cannot tell every weight apart, so each is drawn to what it resembles: that of a stage to the
common one of its kind, as if stages differed by 10 % where energies scatter by 0.3 %; that of a kind to one of all
kinds, as if kinds differed by 30 %; a known wait power to its value, as if it were off by 30 %.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls  # type: ignore[import-untyped]

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.calibration.samples import Sample
from energyopt.planner.verification.prediction import option_at
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.intervals import student_quantile
from energyopt.schemas.ops import OpKey, OpKind, Schedule
from energyopt.schemas.options import Option

_NOISE = 0.003
_BETWEEN_STAGES = 0.1
_PRIOR = 0.3
_RAMPS = 3
_MOST_UNCERTAIN = 0.5


class Ramps:
    """Shapes of power without a profile: a constant, and ramps between quantiles of the clocks that were run, W."""

    def __init__(self, clocks_mhz: Sequence[int]) -> None:
        ramps = min(_RAMPS, len(clocks_mhz) - 1)
        self.knots = np.unique(
            np.quantile(np.array(clocks_mhz, dtype=np.float64), np.linspace(0, 1, ramps + 1))
        )

    def shapes(self, key: OpKey, clock_mhz: Ints) -> Floats:
        """[clocks, shapes]."""
        del key
        ramps = [
            np.clip((clock_mhz - low) / (high - low), 0.0, 1.0)
            for low, high in zip(self.knots[:-1], self.knots[1:], strict=True)
        ]
        return np.column_stack([np.ones(len(clock_mhz)), *ramps])


class ProfilePower:
    """The one shape that a profile gives: its power at each clock, W; a factor corrects it."""

    def __init__(self, options: Mapping[OpKey, tuple[Option, ...]]) -> None:
        self.options = options

    def shapes(self, key: OpKey, clock_mhz: Ints) -> Floats:
        """[clocks, 1]."""
        found = [option_at(self.options[key], int(clock)) for clock in clock_mhz]
        return np.array([[one.energy_j / one.time_s] for one in found])


Shapes = Ramps | ProfilePower


@dataclass(frozen=True, kw_only=True, eq=False)
class EnergyFit:
    """The fitted powers. `weights` are those of each key's shapes; `wait_half_w` is half the 95 % interval.

    predicted_j, measured_j: [W runs, S stages] of one GPU, NaN where none was read.
    """

    shapes: Shapes
    weights: dict[OpKey, Floats]
    wait_power_w: float
    wait_half_w: float
    predicted_j: Floats
    measured_j: Floats

    def power_w(self, key: OpKey, clock_mhz: Ints) -> Floats:
        """The power of a key's operations at each clock."""
        return np.asarray(self.shapes.shapes(key, clock_mhz) @ self.weights[key])


def fit_energies(
    schedule: Schedule,
    samples: Sequence[Sample],
    op_time_s: Sequence[Floats],
    shapes: Shapes,
    wait_power_w: float | None,
) -> EnergyFit:
    """Fit powers to the energies of W runs, each of which counts by its weight.

    op_time_s: of each run the fitted times, [G, n]; wait_power_w: the profile's or the user's, None where unknown.

    Raises:
        ProfileError: no energies, or they cannot tell wait power from the operations' power, or leave none for it.
    """
    if not any(np.isfinite(one.stage_energy_j).any() for one in samples):
        raise ProfileError("no run has energies: the GPUs gave no readings, so only times could be fitted")
    design = _Design(schedule, samples, op_time_s, shapes)
    matrix, target = design.data()
    drawn, wanted = design.priors(wait_power_w)
    full, goal = np.vstack([matrix, drawn]), np.concatenate([target, wanted])
    found, _ = nnls(full, goal, maxiter=100 * full.shape[1])
    if found[design.wait] <= 0:
        raise ProfileError(
            "the runs' energies leave nothing for waiting, and no GPU draws 0 W: readings and times of operations "
            "contradict each other; leave out runs whose energies are doubtful (`energyopt show` has them)"
        )
    wait_half_w = _half_width(full, goal, found, column=design.wait, data=len(target))
    _check_identified(found[design.wait], wait_half_w, wait_power_w)
    return EnergyFit(
        shapes=shapes,
        weights={key: found[design.columns[key]] for key in design.columns},
        wait_power_w=float(found[design.wait]),
        wait_half_w=wait_half_w,
        predicted_j=design.energies_j(found),
        measured_j=design.measured_j,
    )


class _Design:
    """The least-squares problem.

    Its columns are the weights of each key's shapes, the common ones of each kind and of all, and the wait power.
    """

    def __init__(
        self, schedule: Schedule, samples: Sequence[Sample], op_time_s: Sequence[Floats], shapes: Shapes
    ) -> None:
        weights = np.array([one.weight for one in samples])
        self.weights = weights / weights.mean()
        self.measured_j = np.array([one.stage_energy_j for one in samples])  # [W, S]
        self.given = isinstance(shapes, ProfilePower)
        keys = [op.key for op in schedule.ops]
        ordered = sorted(set(keys))
        self.count = 1 if isinstance(shapes, ProfilePower) else len(shapes.knots)
        self.columns = {key: slice(n * self.count, (n + 1) * self.count) for n, key in enumerate(ordered)}
        kinds = sorted({key.kind for key in ordered})
        first = len(ordered) * self.count
        self.pooled: dict[OpKind, int] = {kind: first + n * self.count for n, kind in enumerate(kinds)}
        self.common = first + len(kinds) * self.count
        self.wait = self.common + self.count
        self.typical_w = float(np.nanmedian(self.measured_j / [one.stage_time_s for one in samples]))
        self.cube = self._seconds(schedule, samples, op_time_s, shapes)

    def _seconds(
        self, schedule: Schedule, samples: Sequence[Sample], op_time_s: Sequence[Floats], shapes: Shapes
    ) -> Floats:
        """[W, S, columns]: what one unit of each column adds to a GPU's energy, the mean over replicas."""
        found = np.zeros((len(samples), schedule.stages, self.wait + 1))
        places: dict[OpKey, list[int]] = {}
        for number, op in enumerate(schedule.ops):
            places.setdefault(op.key, []).append(number)
        for run, sample in enumerate(samples):
            found[run, :, self.wait] = sample.stage_time_s
            for key, ops in places.items():
                time_s = op_time_s[run][:, ops]  # [G, ops of the key]
                drawn = [
                    one @ shapes.shapes(key, clocks)
                    for one, clocks in zip(time_s, sample.clock_mhz[:, ops], strict=True)
                ]
                found[run, key.stage, self.columns[key]] = np.mean(drawn, axis=0)
                found[run, key.stage, self.wait] -= time_s.sum() / len(time_s)
        return found

    def data(self) -> tuple[Floats, Floats]:
        """One row per run and stage with a reading, as relative errors in units of the noise."""
        read = np.isfinite(self.measured_j)
        noise = _NOISE / np.sqrt(np.broadcast_to(self.weights[:, None], read.shape)[read])
        return self.cube[read] / (self.measured_j[read] * noise)[:, None], 1 / noise

    def priors(self, wait_power_w: float | None) -> tuple[Floats, Floats]:
        """Rows that draw stages to their kind's common weights, and all to what is known."""
        unit = 1.0 if self.given else self.typical_w
        rows: list[Floats] = []
        for number in range(self.count):
            rows += [
                self._alike(columns.start + number, self.pooled[key.kind] + number, unit * _BETWEEN_STAGES)
                for key, columns in self.columns.items()
            ]
            rows += [
                self._alike(column + number, self.common + number, unit * _PRIOR)
                for column in self.pooled.values()
            ]
        wanted = [0.0] * len(rows)
        if wait_power_w is not None and wait_power_w > 0:
            rows.append(np.zeros(self.wait + 1))
            rows[-1][self.wait] = 1 / (wait_power_w * _PRIOR)
            wanted.append(1 / _PRIOR)
        return np.array(rows), np.array(wanted)

    def _alike(self, column: int, to: int, by: float) -> Floats:
        """A row that draws one column to another."""
        row = np.zeros(self.wait + 1)
        row[column], row[to] = 1 / by, -1 / by
        return row

    def energies_j(self, found: Floats) -> Floats:
        """[W, S] by the fit."""
        return np.where(np.isfinite(self.measured_j), self.cube @ found, np.nan)


def _half_width(full: Floats, goal: Floats, found: Floats, *, column: int, data: int) -> float:
    """Half the 95 % interval of one column, from the scatter of the data and what the priors leave open."""
    active = np.flatnonzero(found > 0)
    used = full[:, active]
    residual = (goal - full @ found)[:data]
    scatter = max(float(residual @ residual) / max(data - len(active), 1), 1e-12)
    inverse = np.linalg.pinv(used.T @ used)
    place = int(np.flatnonzero(active == column)[0])
    return float(student_quantile(max(data - 1, 1)) * np.sqrt(inverse[place, place] * max(scatter, 1.0)))


def _check_identified(wait_w: float, half_w: float, known_w: float | None) -> None:
    if known_w is None and not half_w < _MOST_UNCERTAIN * wait_w:
        raise ProfileError(
            f"the wait power cannot be told from the operations' power ({wait_w:.1f} +- {half_w:.1f} W): give more "
            "runs of different plans, --wait-power-w, or a --profile"
        )
