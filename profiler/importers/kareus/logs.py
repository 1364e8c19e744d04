"""One partition's measurements: `eval_results.jsonl`, an object on each line.

Time and energy are those of one run of the partition (one nanobatch in one layer). The artifact's energy is the sum
over all ranks divided by their number, which is that of one GPU.
"""

from dataclasses import dataclass, replace
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from energyopt.applier.kareus.configs import CommConfig, checked_config, kernel
from energyopt.profiler.importers import units
from energyopt.profiler.importers.kareus.plausible import implausible
from energyopt.schemas.errors import FileFormatError, ProfileError
from energyopt.schemas.files import parse_json, read_text
from energyopt.schemas.nodes import Node

NAME = "eval_results.jsonl"

_KEYS = ("freq", "overlap_start", "overlap_end", "sm", "block", "time_s", "energy_j")
_FLAGS = ("selected_dynamic", "selected_real", "selected_time", "selected_uncertainty")
_PREDICTIONS = ("pred_time_s", "pred_energy_eff_j", "pred_energy_real_j")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One configuration at one clock, and the line that it stands on."""

    line: int
    sm_clock_mhz: int
    config: CommConfig
    time_s: float
    energy_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A partition's measurements, and how many further ones of the same configurations were left out."""

    path: Path
    measured: tuple[Measured, ...]
    repeated: int = 0

    @property
    def clocks_mhz(self) -> frozenset[int]:
        """The clocks that anything was measured at."""
        return frozenset(one.sm_clock_mhz for one in self.measured)


def read_log(path: Path, highest_w: float, *, keep_first: bool = False) -> Log:
    """Read a log.

    highest_w: the highest mean power that a reading can have, W.
    keep_first: of several measurements of one configuration keep the first, as the artifact does.

    Raises:
        FileFormatError: a line that is damaged or cannot be; names file, line and key.
        ProfileError: two lines measure the same configuration.
    """
    lines = enumerate(read_text(path).split("\n"), start=1)
    found = [_measured(path, number, line, highest_w) for number, line in lines if line.strip()]
    if not found:
        raise FileFormatError(f"{path}: empty; expected a measurement on each line")
    _check_one_form(path, found)
    return _unique(Log(path=path, measured=tuple(found)), keep_first=keep_first)


def _measured(path: Path, number: int, line: str, highest_w: float) -> Measured:
    node = Node(f"{path}: line {number}", "$", _value(path, number, line))
    node.only(*_KEYS, *_FLAGS, *_PREDICTIONS)
    _check_notes(node)
    clock = node.field("freq").integer()
    if problem := units.implausible_clock(float(clock)):
        node.field("freq").fail(f"{clock} is {problem}")
    time_s, energy_j = (_positive(node.field(name)) for name in ("time_s", "energy_j"))
    if problem := implausible(time_s, energy_j, highest_w):
        node.field("energy_j").fail(problem)
    return Measured(line=number, sm_clock_mhz=clock, config=_config(node), time_s=time_s, energy_j=energy_j)


def _value(path: Path, number: int, line: str) -> Any:
    try:
        return parse_json(line)
    except JSONDecodeError as error:
        problem = f"not JSON, or cut short: {error.msg} (column {error.colno})"
        raise FileFormatError(f"{path}: line {number}: {problem}") from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: line {number}: {error}") from error


def _check_notes(node: Node) -> None:
    """What the artifact's search notes beside a measurement is not used, but must be what it seems."""
    for name in _FLAGS:
        flag = node.optional(name)
        if flag is not None and not isinstance(flag.value, bool):
            flag.fail("expected true or false")
    for name in _PREDICTIONS:
        prediction = node.optional(name)
        if prediction is not None:
            prediction.number()


def _positive(node: Node) -> float:
    value = node.number()
    if value <= 0:
        node.fail(f"expected a number above 0, found {value:g}")
    return value


def _config(node: Node) -> CommConfig:
    sides = [node.field("overlap_start"), node.field("overlap_end")]
    start, end = (kernel(one, one.value if isinstance(one.value, str) else one.integer()) for one in sides)
    return checked_config(node, start, end, node.field("sm").integer(), node.field("block").integer())


def _check_one_form(path: Path, measured: list[Measured]) -> None:
    """Kernels by index and by name cannot be told to be the same, so that a log must keep to one of them."""
    first: dict[bool, Measured] = {}
    for one in measured:
        if one.config.start is not None:
            first.setdefault(one.config.start.isdigit(), one)
    if len(first) > 1:
        index, name = first[True], first[False]
        raise ProfileError(
            f"{path}: line {index.line} names a kernel by index ({index.config.start}) and line {name.line} "
            f"by name ({name.config.start}); keep the lines of one form"
        )


def _unique(log: Log, *, keep_first: bool) -> Log:
    first: dict[tuple[int, CommConfig], Measured] = {}
    for one in log.measured:
        earlier = first.setdefault((one.sm_clock_mhz, one.config), one)
        if earlier is not one and not keep_first:
            raise ProfileError(
                f"{log.path}: lines {earlier.line} and {one.line} both measure {one.config} at "
                f"{one.sm_clock_mhz} MHz; keep one, or pass --keep-first"
            )
    return replace(log, measured=tuple(first.values()), repeated=len(log.measured) - len(first))
