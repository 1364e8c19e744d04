"""What `doctor` finds, as records and as JSON. Energies in J, powers in W, clocks in MHz, times in s."""

from dataclasses import asdict, dataclass
from typing import Any

from energyopt.applier.devices.interface import Absent, Capabilities, Identity, State, Throttle
from energyopt.applier.guard.restore import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterHealth:
    """How the energy counter behaved while it was watched.

    ticks: how often it advanced.
    tick_s: usual time between two advances; None with fewer than two ticks.
    counter_w: mean power by the counter, from its first tick to its last.
    power_w: mean of the power readings in that time.
    """

    watched_s: float
    ticks: int
    tick_s: float | None = None
    counter_w: float | None = None
    power_w: float | None = None

    @property
    def disagreement(self) -> float | None:
        """The counter's mean power relative to that of the readings, minus 1; None without both."""
        if self.counter_w is None or not self.power_w:
            return None
        return self.counter_w / self.power_w - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardReport:
    """One GPU that answers.

    clocks_mhz: the supported SM clocks, highest first.
    counter: how the energy counter behaved, or why there is nothing to say.
    """

    identity: Identity
    capabilities: Capabilities
    state: State
    clocks_mhz: tuple[int, ...]
    counter: CounterHealth | Absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something about this machine's software or rights."""

    name: str
    found: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Something that does not work here, and what to do about it."""

    subject: str
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything.

    sick: GPUs that do not answer, or why there are none.
    """

    boards: tuple[BoardReport, ...]
    sick: tuple[Lack, ...]
    facts: tuple[Fact, ...]
    journals: tuple[Outcome, ...]


def report_to_json(report: Report, lacks: tuple[Lack, ...]) -> dict[str, Any]:
    """The report and what follows from it as one JSON object; what is absent is null with a reason beside it."""
    return {
        "gpus": [_board(board) for board in report.boards],
        "facts": [asdict(fact) for fact in report.facts],
        "journals": outcomes_to_json(report.journals),
        "lacks": [asdict(lack) for lack in lacks],
    }


def outcomes_to_json(outcomes: tuple[Outcome, ...]) -> list[dict[str, Any]]:
    """Journals, and what became of them."""
    return [{**asdict(one), "path": str(one.path), "standing": str(one.standing)} for one in outcomes]


def throttle_words(throttle: Throttle) -> list[str]:
    """The reasons in words, such as `sw power cap`; an unknown bit by its number."""
    return [(one.name or f"reason {one.value:#x}").lower().replace("_", " ") for one in throttle]


def _board(board: BoardReport) -> dict[str, Any]:
    return {
        **asdict(board.identity),
        "power_meaning": str(board.identity.power_meaning),
        "capabilities": _capabilities(board.capabilities),
        "sm_clocks_mhz": list(board.clocks_mhz),
        **_maybe("sm_clock_mhz", board.state.sm_clock_mhz),
        **_maybe("temperature_c", board.state.temperature_c),
        **_maybe("throttle", board.state.throttle),
        **_maybe("counter", board.counter),
    }


def _capabilities(found: Capabilities) -> dict[str, Any]:
    return {**asdict(found), "knob": None if found.knob is None else str(found.knob)}


def _maybe(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Absent):
        return {name: None, f"{name}_absent": value.reason}
    if isinstance(value, Throttle):
        return {name: throttle_words(value)}
    if isinstance(value, CounterHealth):
        return {name: {**asdict(value), "disagreement": value.disagreement}}
    return {name: value}
