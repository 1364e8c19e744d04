"""The partition rows of a profile: what was measured of each partition, and what overlapping brings it."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from energyopt.planner.executions import span
from energyopt.planner.tables import Table
from energyopt.planner.wording import MISSING, percent_change, relative
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import Execution

if TYPE_CHECKING:
    from energyopt.schemas.profile import Profile, ProfileRow

_SHOWN = 4  # launch points of a cell
_COLUMNS = (
    "partition",
    "op",
    "stages",
    "way",
    "count",
    "SMs",
    "launched before",
    "rows",
    "clocks",
    "MHz",
    "fastest s",
    "least J",
)


class _Subject(NamedTuple):
    """A partition of an op, wherever it costs the same, in one way of running it."""

    op: str
    partition: str
    nanobatches: int | None
    execution: str

    def __str__(self) -> str:
        cut = {None: "however cut", 1: "whole"}.get(self.nanobatches, f"{self.nanobatches} nanobatches")
        return f"{cut}, {self.execution}"


class Gain(NamedTuple):
    """A partition at the highest clock that it was measured at both ways.

    nanobatches: parts that the microbatch is cut into; sequential, fastest, thriftiest: its row without overlap,
    and the overlapped ones of least time and least energy, per occurrence.
    """

    sequential: "ProfileRow"
    fastest: "ProfileRow"
    thriftiest: "ProfileRow"


def has_configurations(profile: "Profile") -> bool:
    """Whether partitions were measured in any other way than one kernel after the other, as part of their op."""
    return any(
        row.level == "partition" and (row.execution == Execution.OVERLAPPED or row.nanobatches is not None)
        for row in profile.rows
    )


def partition_table(profile: "Profile") -> Table:
    """One line for each partition and way, of usable rows; stages where all is the same share it."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for (place, subject), rows in _grouped(_usable(profile)):
        lines.setdefault((subject.partition, subject.op, str(subject), *_cells(rows)), []).append(place)
    return Table(
        title="partitions, cost per occurrence (1 GPU)",
        columns=_COLUMNS,
        rows=tuple(
            (partition, op, _joined(places), *others) for (partition, op, *others), places in lines.items()
        ),
    )


def gains(profile: "Profile") -> list[Gain]:
    """What overlapping brings each partition that was measured with and without, stage by stage."""
    found = []
    for _, rows in _by_place(row for row in _usable(profile) if row.nanobatches is not None):
        for clock in sorted({row.sm_clock_mhz for row in rows}, reverse=True):
            same = [row for row in rows if row.sm_clock_mhz == clock]
            plain = [row for row in same if row.execution != Execution.OVERLAPPED and row.comm_sms is None]
            overlapped = [row for row in same if row.execution == Execution.OVERLAPPED]
            if plain and overlapped:
                found.append(
                    Gain(
                        sequential=plain[0],
                        fastest=min(overlapped, key=lambda row: row.time_s),
                        thriftiest=min(overlapped, key=lambda row: row.energy_j),
                    )
                )
                break
    return found


def gain_table(profile: "Profile") -> Table | None:
    """One line for each of `gains`; stages where all is the same share it. None where nothing was overlapped."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for one in gains(profile):
        own = one.sequential
        lines.setdefault((str(own.partition), str(own.op), *_gain_cells(one)), []).append(_place(own))
    if not lines:
        return None
    columns = (
        "partition",
        "op",
        "stages",
        "nanobatches",
        "MHz",
        "sequential s",
        "overlapped s",
        "time change",
        "SMs",
        "launched before",
        "sequential J",
        "overlapped J",
        "energy change",
    )
    return Table(
        title="partitions at their highest clock: one kernel after the other, beside the overlapped configurations "
        "of least time and of least energy; per occurrence",
        columns=columns,
        rows=tuple(
            (partition, op, _joined(places), *others) for (partition, op, *others), places in lines.items()
        ),
    )


def gain_to_json(one: Gain) -> dict[str, Any]:
    """The same as a JSON object; the configurations are those of least time and of least energy."""
    own = one.sequential
    return {
        "op": str(own.op),
        "stage": own.stage,
        "chunk": own.chunk,
        "partition": own.partition,
        "count": own.count,
        "nanobatches": own.nanobatches,
        "sm_clock_mhz": own.sm_clock_mhz,
        "sequential": {"time_s": own.time_s, "energy_j": own.energy_j},
        **{
            name: {
                "time_s": row.time_s,
                "energy_j": row.energy_j,
                "comm_sms": row.comm_sms,
                "comm_launch": row.comm_launch,
            }
            for name, row in (
                ("overlapped_fastest", one.fastest),
                ("overlapped_least_energy", one.thriftiest),
            )
        },
    }


def _gain_cells(one: Gain) -> tuple[str, ...]:
    own, fastest, thriftiest = one
    return (
        str(own.nanobatches),
        str(own.sm_clock_mhz),
        f"{own.time_s:.5g}",
        f"{fastest.time_s:.5g}",
        percent_change(relative(fastest.time_s, own.time_s)),
        "library's own" if fastest.comm_sms is None else str(fastest.comm_sms),
        fastest.comm_launch or MISSING,
        f"{own.energy_j:.5g}",
        f"{thriftiest.energy_j:.5g}",
        percent_change(relative(thriftiest.energy_j, own.energy_j)),
    )


def _usable(profile: "Profile") -> list["ProfileRow"]:
    return [row for row in profile.rows if row.level == "partition" and row.invalid is None]


def _grouped(rows: Sequence["ProfileRow"]) -> list[tuple[tuple[str, _Subject], list["ProfileRow"]]]:
    found: dict[tuple[str, _Subject], list[ProfileRow]] = {}
    for row in sorted(rows, key=_order):
        subject = _Subject(
            str(row.op), str(row.partition), row.nanobatches, row.execution or Execution.SEQUENTIAL
        )
        found.setdefault((_place(row), subject), []).append(row)
    return list(found.items())


def _by_place(rows: Iterable["ProfileRow"]) -> list[tuple[object, list["ProfileRow"]]]:
    """The rows of each partition, cut in one way, at one place."""
    ranked = sorted(rows, key=_order)
    grouped = groupby(ranked, key=lambda row: (_order(row)[:4], row.nanobatches))
    return [(key, list(members)) for key, members in grouped]


def _order(row: "ProfileRow") -> tuple[int, str, int, int, int, bool]:
    """By kind and partition, then place and way."""
    stage, chunk = (-1 if one is None else one for one in (row.stage, row.chunk))
    kind = list(OpKind).index(OpKind(row.op))
    overlapped = row.execution == Execution.OVERLAPPED
    return kind, str(row.partition), stage, chunk, row.nanobatches or 0, overlapped


def _cells(rows: Sequence["ProfileRow"]) -> tuple[str, ...]:
    clocks = {row.sm_clock_mhz for row in rows}
    return (
        span({row.count for row in rows}),
        _sms(rows),
        _launches(rows),
        str(len(rows)),
        str(len(clocks)),
        span(clocks),
        f"{min(row.time_s for row in rows):.5g}",
        f"{min(row.energy_j for row in rows):.5g}",
    )


def _sms(rows: Sequence["ProfileRow"]) -> str:
    """Such as `library's own, 3 to 30 (10)`: the SM counts of the communication, and how many there are."""
    counts = {row.comm_sms for row in rows if row.comm_sms is not None}
    free = any(row.comm_sms is None and row.execution == Execution.OVERLAPPED for row in rows)
    parts = ["library's own"] if free else []
    return ", ".join([*parts, *([f"{span(counts)} ({len(counts)})"] if counts else [])]) or MISSING


def _launches(rows: Sequence["ProfileRow"]) -> str:
    names = sorted({row.comm_launch for row in rows if row.comm_launch is not None})
    more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return ", ".join([*names[:_SHOWN], *more]) or MISSING


def _place(row: "ProfileRow") -> str:
    stage = "all" if row.stage is None else str(row.stage)
    return f"{stage}, chunk {row.chunk}" if row.chunk else stage


def _joined(places: Sequence[str]) -> str:
    """Places in order; runs of stages as a range."""
    if len(places) < 3 or not all(place.isdigit() for place in places):
        return ", ".join(places)
    numbers = [int(place) for place in places]
    in_a_row = numbers == list(range(numbers[0], numbers[-1] + 1))
    return span(numbers) if in_a_row else ", ".join(places)
