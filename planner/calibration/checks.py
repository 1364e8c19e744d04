"""What cannot be fitted together, and which rows of a profile lie far from the clocks that ran."""

import math
from collections.abc import Mapping, Sequence

from energyopt.planner.calibration.op_times import Measured
from energyopt.planner.verification.matching import check_profile, gpu_names
from energyopt.planner.verification.prediction import MOST_BEYOND, REACH
from energyopt.planner.verification.runs import Recorded
from energyopt.schemas.errors import NotComparableError, ProfileError, RequestError
from energyopt.schemas.ops import OpKey
from energyopt.schemas.options import Option
from energyopt.schemas.pipeline import same_job
from energyopt.schemas.profile import Profile


def check_request(runs: Sequence[Recorded], wait_power_w: float | None) -> None:
    """Refuse no run, or an impossible wait power.

    Raises:
        RequestError: says which.
    """
    if not runs:
        raise RequestError("calibrate needs at least one telemetry file")
    if wait_power_w is not None and not (math.isfinite(wait_power_w) and wait_power_w > 0):
        raise RequestError(f"--wait-power-w needs a power above 0, not {wait_power_w:g}")


def check_same(runs: Sequence[Recorded], profile: Profile | None) -> None:
    """Refuse runs of different jobs or GPUs, or a profile of another GPU or of other degrees.

    Raises:
        NotComparableError: names the files and the difference.
    """
    first = runs[0].telemetry.metadata
    for other in runs[1:]:
        meta = other.telemetry.metadata
        difference = same_job(first.pipeline, meta.pipeline)
        if difference is not None:
            raise NotComparableError(f"{runs[0].file} and {other.file} are of different jobs: {difference}")
        pairs = (
            (gpu_names(first), gpu_names(meta)),
            (list(first.scopes), list(meta.scopes)),
            ([f"{first.world_size} ranks"], [f"{meta.world_size} ranks"]),
        )
        for one, two in pairs:
            if one and two and one != two:  # what could not be read says nothing
                raise NotComparableError(f"{runs[0].file} ran on {one}, {other.file} on {two}")
    if profile is not None:
        for run in runs:
            if notes := check_profile(profile, run.telemetry, run.file):
                raise NotComparableError(f"{notes[0]}: give a profile of the GPU that ran, or none")


def reach_notes(measured: Mapping[OpKey, Measured], options: Mapping[OpKey, tuple[Option, ...]]) -> list[str]:
    """Which clocks that ran, and which of the profile's rows, lie far from each other.

    Raises:
        ProfileError: more than 5 % of the operations ran far from any row, so that ratios to rows mean nothing.
    """
    far, total, found = 0.0, 0.0, []
    for key, one in sorted(measured.items()):
        rows = [option.sm_clock_mhz for option in options[key]]
        ran = one.clock_mhz
        outside = (ran < (1 - REACH) * rows[0]) | (ran > (1 + REACH) * rows[-1])
        far, total = far + float(one.ops[outside].sum()), total + float(one.ops.sum())
        if outside.any():
            worst = int(ran[outside][0])
            found.append(f"{key} ran at {worst} MHz, far from the profile's {rows[0]} to {rows[-1]} MHz")
        guessed = [clock for clock in rows if not (1 - REACH) * ran[0] <= clock <= (1 + REACH) * ran[-1]]
        if guessed:
            found.append(
                f"{key}: {len(guessed)} of {len(rows)} rows, {guessed[0]} to {guessed[-1]} MHz, are corrected by "
                f"runs at {ran[0]:.0f} to {ran[-1]:.0f} MHz alone"
            )
    if far > MOST_BEYOND * total:
        raise ProfileError(f"{100 * far / total:.0f} % of the operations ran far from any row: {found[0]}")
    return found
