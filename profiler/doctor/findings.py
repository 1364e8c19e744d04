"""From facts to advice: each lack with what to do about it."""

from collections.abc import Iterator

from energyopt.applier.devices.interface import Absent
from energyopt.applier.guard.restore import Standing
from energyopt.profiler.doctor.records import BoardReport, CounterHealth, Lack, Report

TOLERATED = 0.1
"""Counter and power may differ by this much: readings lag and are averages, and an idle board's power moves."""

_NAMES = {
    "energy_counter": "energy counter",
    "power": "power",
    "sm_clock": "SM clock",
    "throttle_reasons": "throttle reasons",
    "temperature": "temperature",
    "supported_clocks": "list of clocks",
    "set_clocks": "setting clocks",
}
_HARMLESS = "nothing to do: the rest works without it"
_SETTLED = (Standing.IN_USE, Standing.RESTORED)


def lacks_of(report: Report) -> tuple[Lack, ...]:
    """Everything that does not work here, most serious first: boards, clocks left behind, readings, software."""
    journals = (
        Lack(subject=one.uuid or one.path.name, problem=f"clock journal: {one.standing}", remedy=one.detail)
        for one in report.journals
        if one.standing not in _SETTLED
    )
    software = (
        Lack(subject=fact.name, problem=fact.found, remedy=fact.remedy)
        for fact in report.facts
        if fact.remedy
    )
    boards = (lack for board in report.boards for lack in _of_board(board))
    return (*report.sick, *journals, *boards, *software)


def counter_words(counter: CounterHealth | Absent) -> str:
    """The state of an energy counter in a few words."""
    if isinstance(counter, Absent):
        return counter.reason
    if not counter.ticks:
        return f"did not move in {counter.watched_s:.1f} s"
    if counter.tick_s is None:
        return f"moved once in {counter.watched_s:.1f} s"
    return f"ticks every {1e3 * counter.tick_s:.0f} ms{_agreement(counter)}"


def _agreement(counter: CounterHealth) -> str:
    if counter.disagreement is None:
        return ", no power to compare with"
    if abs(counter.disagreement) <= TOLERATED:
        return f", agrees with power ({counter.disagreement:+.1%})"
    return f", {counter.disagreement:+.0%} against power"


def _of_board(board: BoardReport) -> Iterator[Lack]:
    name = board.identity.uuid
    for field, words in _NAMES.items():
        reason = getattr(board.capabilities, field)
        if reason is not None:
            remedy = board.capabilities.remedies.get(field, _HARMLESS)
            yield Lack(subject=name, problem=f"{words}: {reason}", remedy=remedy)
    advice = None if isinstance(board.counter, Absent) else _counter_remedy(board.counter)
    if advice is not None:
        yield Lack(subject=name, problem=f"energy counter {counter_words(board.counter)}", remedy=advice)


def _counter_remedy(counter: CounterHealth) -> str | None:
    if counter.ticks < 2:
        return "it cannot be measured with; energy comes from power readings instead"
    if counter.disagreement is not None and abs(counter.disagreement) > TOLERATED:
        return "run doctor again under a steady load; if they still differ, take one source for all files"
    return None
