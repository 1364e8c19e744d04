"""One row from the windows of what it stands for."""

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from statistics import fmean, median

from energyopt.applier.devices.interface import Throttle
from energyopt.profiler.measurement.statistics import DRIFT, Reading, total
from energyopt.profiler.measurement.window import Window
from energyopt.schemas.profile import EnergySource, ProfileRow

CAPPED_DRIFT = DRIFT / 2
"""At the power limit the speed drifts, and the energy with it: by half as much, for power rises with about the
square of the clock."""

Windows = Mapping[tuple[str, int], list[Window]]
"""By kernel name and clock."""

Part = tuple[str, int]
"""A kernel's name, and how often it runs."""


class RowMaker:
    """Makes rows at one clock."""

    def __init__(self, windows: Windows, clock_mhz: int, source: EnergySource, rank: int | None) -> None:
        self._windows, self._clock_mhz, self._source, self._rank = windows, clock_mhz, source, rank

    def rows(self, parts: list[Part], **place: object) -> Iterator[ProfileRow]:
        """The row of something that runs these kernels, if each of them gave a number at all.

        It is invalid where one of them has no usable window; its numbers are then those of the windows that were
        rejected, for a person to look at.
        """
        lacking = [name for name, _ in parts if not self._usable(name)]
        found = {name: self._usable(name) or self._with_numbers(name) for name, _ in parts}
        if not parts or not all(found.values()):
            return
        windows = [one for several in found.values() for one in several]
        time = total([(count, _times(found[name])) for name, count in parts])
        energy = total([(count, _energies(found[name])) for name, count in parts])
        yield ProfileRow(
            **({"stage": None, "chunk": None} | place),  # type: ignore[arg-type]
            **_conditions(windows),  # type: ignore[arg-type]
            sm_clock_mhz=self._clock_mhz,
            time_s=time.mean,
            time_std_s=time.std,
            energy_j=energy.mean,
            energy_std_j=energy.std,
            samples=energy.samples,
            energy_source=self._source,
            rank=self._rank,
            invalid=self._why(lacking[0], len(parts)) if lacking else None,
        )

    def _usable(self, name: str) -> list[Window]:
        return [one for one in self._with_numbers(name) if one.usable]

    def _with_numbers(self, name: str) -> list[Window]:
        return [one for one in self._windows.get((name, self._clock_mhz), []) if one.energy_j is not None]

    def _why(self, name: str, parts: int) -> str:
        reason = str(self._windows[name, self._clock_mhz][-1].rejected)
        return reason if parts == 1 else f"{name}: {reason}"


def _times(windows: list[Window]) -> dict[int, Reading]:
    return {
        one.round: Reading(one.time_s, drift=CAPPED_DRIFT * one.time_s if _is_capped(one) else 0.0)
        for one in windows
    }


def _energies(windows: list[Window]) -> dict[int, Reading]:
    return {one.round: _energy(one) for one in windows}


def _energy(window: Window) -> Reading:
    energy_j = window.energy_j or 0.0
    drift = CAPPED_DRIFT if _is_capped(window) else DRIFT
    return Reading(energy_j, window.energy_error_j or 0.0, drift * energy_j)


def _is_capped(window: Window) -> bool:
    return bool(Throttle(window.throttle or 0) & Throttle.SW_POWER_CAP)


def _conditions(windows: list[Window]) -> dict[str, float | int | None]:
    """Clock, temperatures and throttle reasons under which some windows ran; None where they were not seen."""
    clocks = [one.achieved_sm_clock_mhz for one in windows if one.achieved_sm_clock_mhz is not None]
    starts = [one.temperature_start_c for one in windows if one.temperature_start_c is not None]
    ends = [one.temperature_end_c for one in windows if one.temperature_end_c is not None]
    seen = [one.throttle for one in windows if one.throttle is not None]
    return {
        "achieved_sm_clock_mhz": round(median(clocks)) if clocks else None,
        "temperature_start_c": fmean(starts) if starts else None,
        "temperature_end_c": fmean(ends) if ends else None,
        "throttle": reduce(or_, seen) if seen else None,
    }
