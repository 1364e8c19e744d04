"""From windows to rows: kernels as measured, partitions and ops as the sums of what they run.

A row of level `kernel` serves every stage; its count is how often it runs in its partition. Partitions and ops are
rows of their stage and chunk; an op runs its partitions one after the other, each on its own.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import or_
from statistics import fmean, median

from energyopt.applier.devices.interface import Throttle
from energyopt.profiler.measurement.statistics import DRIFT, Reading, total
from energyopt.profiler.measurement.window import Window
from energyopt.profiler.workloads.interface import Kernel, KernelUse, PartitionUse, Workload, WorkloadOp
from energyopt.schemas.profile import EnergySource, Level, ProfileRow

SEQUENTIAL = "sequential"
CAPPED_DRIFT = DRIFT / 2
"""At the power limit the speed drifts, and the energy with it: by half as much, for power rises with about the
square of the clock."""
Windows = Mapping[tuple[str, int], list[Window]]  # by kernel name and clock


_Part = tuple[str, int]  # a kernel's name, and how often it runs


def rows_of(
    workload: Workload, windows: Windows, clocks_mhz: Iterable[int], source: EnergySource, rank: int | None
) -> list[ProfileRow]:
    """All rows of a profile, from the windows of every kernel at every clock."""
    rows: list[ProfileRow] = []
    for clock in clocks_mhz:
        maker = _Maker(windows, clock, source, rank)
        rows.extend(_kernel_rows(workload, maker))
        for op in workload.ops:
            rows.extend(_op_rows(op, maker))
    return rows


def gaps_of(workload: Workload, windows: Windows, clocks_mhz: Iterable[int]) -> list[str]:
    """Every kernel that gave no number at a clock, with the clock and the reason."""
    return [
        f"{kernel.name} at {clock} MHz: {_last_reason(windows.get((kernel.name, clock), []))}"
        for clock in clocks_mhz
        for kernel in workload.kernels()
        if all(one.energy_j is None for one in windows.get((kernel.name, clock), []))
    ]


def _last_reason(windows: list[Window]) -> str:
    return str(windows[-1].rejected) if windows else "not measured"


def op_parts(op: WorkloadOp) -> list[_Part]:
    """How often an op runs each kernel."""
    counts: Counter[str] = Counter()
    for use in op.partitions:
        for kernel in use.partition.kernels:
            counts[kernel.kernel.name] += kernel.count * use.count
    return sorted(counts.items())


def _kernel_rows(workload: Workload, maker: "_Maker") -> Iterator[ProfileRow]:
    seen: set[tuple[str, str, str]] = set()
    for op in workload.ops:
        for use in op.partitions:
            for kernel in use.partition.kernels:
                key = (op.kind, use.partition.name, kernel.kernel.name)
                if key not in seen:
                    seen.add(key)
                    yield from _with_variants(workload, op, use, kernel, maker)


def _with_variants(
    workload: Workload, op: WorkloadOp, use: PartitionUse, kernel: KernelUse, maker: "_Maker"
) -> Iterator[ProfileRow]:
    """A kernel's row, and those of the same communication on other numbers of SMs."""
    yield from _kernel_row(op, use, kernel, kernel.kernel, maker)
    for variant in workload.variants:
        if variant.name.partition("@")[0] == kernel.kernel.name:
            yield from _kernel_row(op, use, kernel, variant, maker)


def _kernel_row(
    op: WorkloadOp, use: PartitionUse, kernel: KernelUse, measured: Kernel, maker: "_Maker"
) -> Iterator[ProfileRow]:
    communication = measured.communication
    yield from maker.rows(
        [(measured.name, 1)],
        level=Level.KERNEL,
        op=op.kind,
        partition=use.partition.name,
        kernel=kernel.kernel.name,
        count=kernel.count,
        comm_sms=None if communication is None else communication.sms,
    )


def _op_rows(op: WorkloadOp, maker: "_Maker") -> Iterator[ProfileRow]:
    for use in op.partitions:
        parts = [(kernel.kernel.name, kernel.count) for kernel in use.partition.kernels]
        yield from maker.rows(
            parts,
            level=Level.PARTITION,
            stage=op.stage,
            chunk=op.chunk,
            op=op.kind,
            partition=use.partition.name,
            count=use.count,
            execution=SEQUENTIAL,
        )
    yield from maker.rows(
        op_parts(op), level=Level.OP, stage=op.stage, chunk=op.chunk, op=op.kind, execution=SEQUENTIAL
    )


class _Maker:
    """Makes rows at one clock."""

    def __init__(self, windows: Windows, clock_mhz: int, source: EnergySource, rank: int | None) -> None:
        self._windows, self._clock_mhz, self._source, self._rank = windows, clock_mhz, source, rank

    def rows(self, parts: list[_Part], **place: object) -> Iterator[ProfileRow]:
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
