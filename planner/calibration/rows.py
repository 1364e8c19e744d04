"""The rows of a calibrated profile: one for each operation key and clock, and partitions of the profile before."""

from collections.abc import Sequence

import numpy as np

from energyopt.planner.arrays import Ints
from energyopt.planner.calibration.op_energies import EnergyFit
from energyopt.planner.calibration.op_times import Curve, Measured
from energyopt.planner.composition.table import say_more
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey
from energyopt.schemas.profile import EnergySource, Level, Profile, ProfileRow


def calibrated_rows(
    curves: dict[OpKey, Curve], measured: dict[OpKey, Measured], energies: EnergyFit
) -> tuple[ProfileRow, ...]:
    """Rows at the earlier profile's clocks, or at every clock of the runs within what the key ran at.

    Raises:
        ProfileError: the fit leaves an operation without energy.
    """
    every = sorted({int(clock) for one in measured.values() for clock in one.clock_mhz})
    rows: list[ProfileRow] = []
    for key, curve in sorted(curves.items()):
        clocks = _clocks(curve, measured[key], every)
        time_s = curve.at(clocks)
        energy_j = energies.power_w(key, clocks) * time_s
        if (energy_j <= 0).any():
            raise ProfileError(
                f"the runs' energies leave none for the {key}: give more runs of different plans"
            )
        rows += _rows(key, clocks, time_s.tolist(), energy_j.tolist(), measured[key])
    return tuple(rows)


def kept_partitions(profile: Profile | None) -> tuple[ProfileRow, ...]:
    """The rows of partitions that say more than those of whole operations, as they were measured.

    Nothing where no operation overlaps or cuts its microbatch. Planning scales what it composes of them by the
    ratio of the operation's calibrated row to the sum of its plain partitions, so that runs correct them too.
    """
    rows = [] if profile is None else [row for row in profile.rows if row.level is Level.PARTITION]
    return tuple(rows) if say_more(rows) else ()


def _clocks(curve: Curve, measured: Measured, every: Sequence[int]) -> Ints:
    if curve.options:
        return np.array([one.sm_clock_mhz for one in curve.options], dtype=np.int64)
    low, high = measured.clock_mhz[0], measured.clock_mhz[-1]
    return np.array([clock for clock in every if low <= clock <= high], dtype=np.int64)


def _rows(
    key: OpKey, clocks: Ints, time_s: Sequence[float], energy_j: Sequence[float], measured: Measured
) -> list[ProfileRow]:
    return [
        ProfileRow(
            level=Level.OP,
            stage=key.stage,
            chunk=key.chunk,
            op=key.kind,
            sm_clock_mhz=clock,
            achieved_sm_clock_mhz=seen_mhz,
            time_s=one_s,
            energy_j=one_j,
            energy_source=EnergySource.MODEL,
            throttle=bits,
        )
        for clock, one_s, one_j in zip(clocks.tolist(), time_s, energy_j, strict=True)
        for seen_mhz, bits in (_seen(measured, clock),)
    ]


def _seen(measured: Measured, clock: int) -> tuple[int | None, int | None]:
    """The clock that runs at this one really had, and what held it back; None where none ran at it or looked."""
    place = np.flatnonzero(measured.clock_mhz == clock)
    if not len(place) or measured.seen_mhz is None or measured.throttle is None:
        return None, None
    seen_mhz = float(measured.seen_mhz[place[0]])
    return (round(seen_mhz), int(measured.throttle[place[0]])) if np.isfinite(seen_mhz) else (None, None)
