"""What a reader must know before trusting a verification, in words; and where the model is off most."""

from collections.abc import Mapping, Sequence

from energyopt.planner.verification.promises import Promise
from energyopt.planner.verification.records import OpRow, Section, WorkRow
from energyopt.planner.verification.statistics import FEWEST, FEWEST_FOR_CORRELATION
from energyopt.planner.wording import percent_change
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.profile import Profile

_HELD = 0.98
_SHOWN = 5


def profile_notes(promised: Mapping[int, Promise]) -> list[str]:
    """How many operations the profile has no row for at their clock, and which alternatives it cannot price."""
    between, beyond = promised[0].unmeasured
    names = (
        (between, "between rows of the profile: interpolated"),
        (beyond, "beyond its rows: extrapolated"),
    )
    found = [f"{count} operations run at clocks {name}" for count, name in names if count]
    return found + list(dict.fromkeys(one.unpriced for one in promised.values() if one.unpriced))


def time_notes(pipeline: Pipeline, profile: Profile | None) -> list[str]:
    """Which times outside operations a prediction rests on, where plan and profile say different ones."""
    if profile is None:
        return []
    found = []
    for name, words in (("fixed_time_s", "fixed time"), ("p2p_time_s", "P2P time")):
        used, planned = getattr(profile.metadata, name), getattr(pipeline, name)
        if used is not None and used != planned:
            found.append(
                f"the prediction uses the profile's {words}, {used:.6g} s, not the plan's {planned:.6g} s"
            )
    return found


def clock_notes(rows: Sequence[OpRow]) -> list[str]:
    """Which operations did not get the clock that was asked for, and why."""
    slow = [
        row
        for row in rows
        if row.sm_clock_mhz and (row.achieved_sm_clock_mhz or row.sm_clock_mhz) < _HELD * row.sm_clock_mhz
    ]
    if not slow:
        return []
    worst = min(slow, key=lambda row: (row.achieved_sm_clock_mhz or 0) / (row.sm_clock_mhz or 1))
    why = sorted({reason for row in slow for reason in row.throttle})
    return [
        f"{sum(row.ops for row in slow)} of {sum(row.ops for row in rows)} recorded operations ran more than "
        f"{100 * (1 - _HELD):.0f} % below the clock asked for, the {worst.op} of stage {worst.stage} at "
        f"{worst.achieved_sm_clock_mhz:.0f} of {worst.sm_clock_mhz} MHz ({', '.join(why) or 'no reason was read'})"
    ]


def section_notes(sections: Sequence[Section]) -> list[str]:
    """Stalls, and too few iterations to tell their correlation."""
    found = []
    for one in sections:
        name = "the plan" if one.alternative == 0 else f"alternative {one.alternative}"
        if one.stalls:
            shown = ", ".join(str(number) for number in one.stalls[:_SHOWN])
            shown += ", ..." if len(one.stalls) > _SHOWN else ""
            found.append(
                f"{len(one.stalls)} iterations of {name} stalled ({shown}): they are not compared with the "
                f"prediction, and lengthen the mean by {100 * one.stall_share:.2f} %"
            )
        count = len(one.numbers)
        if FEWEST <= count < FEWEST_FOR_CORRELATION:
            found.append(
                f"{name} has {count} iterations: with fewer than {FEWEST_FOR_CORRELATION} they are taken as "
                "independent, so the interval may be too narrow"
            )
    return found


def worst_stage(sections: Sequence[Section], work: Sequence[WorkRow]) -> str | None:
    """Where the model is off most: by the operations' time where that is known, else by energy."""
    work = [row for row in work if row.predicted_s > 0]
    if work:
        row = max(work, key=lambda one: abs(one.measured_s / one.predicted_s - 1))
        off = percent_change(row.measured_s / row.predicted_s - 1)
        times = f"{row.measured_s:.4f} s, predicted {row.predicted_s:.4f} s ({off})"
        return f"stage {row.stage}: its operations take {times}"
    off_by = {row.stage: row.energy.deviation.value for row in sections[0].stages if row.energy.deviation}
    if not off_by:
        return None
    stage = max(off_by, key=lambda one: abs(off_by[one]))
    return f"stage {stage}: its energy is off by {percent_change(off_by[stage])}"
