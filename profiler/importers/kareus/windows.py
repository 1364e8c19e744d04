"""One end of the window, and one block size, for each partition.

A profile tells configurations apart by launch and SMs. Measurements that differ in the window's end or the block
size alone would become one, so that a partition must have one of each; where it has several, the user says which.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from energyopt.profiler.importers.kareus.logs import Log, Measured
from energyopt.schemas.errors import EnergyoptError, ProfileError

_NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the user asks for where a partition has several.

    ends: by partition, the kernel (or `none`) by which its communication is waited for.
    block: threads of a communication block, in all partitions.
    """

    ends: Mapping[str, str]
    block: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A partition's measurements that are of one window end and one block size.

    end: None where nothing was measured overlapped.
    left_out: measurements of other ends and blocks.
    """

    log: Log
    end: str | None
    block: int
    left_out: int


def parse_window_ends(settings: Sequence[str], partitions: Sequence[str]) -> dict[str, str]:
    """Read `PARTITION=END` texts.

    Raises:
        EnergyoptError: no such text, an unknown partition, or one twice.
    """
    found: dict[str, str] = {}
    for setting in settings:
        name, separator, end = (part.strip() for part in setting.partition("="))
        if not separator or not end:
            raise EnergyoptError(f"--window-end {setting!a} is not PARTITION=END, such as fwd_attn=8")
        if name not in partitions:
            raise EnergyoptError(
                f"--window-end has no partition {name!a}; this job has {', '.join(partitions)}"
            )
        if name in found:
            raise EnergyoptError(f"--window-end gives {name} twice: {found[name]} and {end!a}")
        found[name] = end
    return found


def choose(name: str, log: Log, choice: Choice) -> Chosen:
    """The measurements of a partition that have one window end and one block size.

    Raises:
        ProfileError: several of either, and no choice among them; or nothing has what was chosen.
    """
    asked = None if choice.block is None else str(choice.block)
    kept, block = _of_one(name, log, log.measured, _block, asked, ("block sizes", "--block {}"))
    flag = f"--window-end {name}={{}}"
    kept, end = _of_one(name, log, kept, _end, choice.ends.get(name), ("window ends", flag))
    assert block is not None
    return Chosen(
        log=replace(log, measured=kept), end=end, block=int(block), left_out=len(log.measured) - len(kept)
    )


def _block(one: Measured) -> str | None:
    return str(one.config.block)


def _end(one: Measured) -> str | None:
    """A window's end; None where there is no window."""
    return None if one.config.start is None else one.config.end or _NONE


def _of_one(
    name: str,
    log: Log,
    measured: Sequence[Measured],
    value_of: Callable[[Measured], str | None],
    asked: str | None,
    words: tuple[str, str],
) -> tuple[tuple[Measured, ...], str | None]:
    """The measurements with one value, or with none to tell apart; and that value."""
    lines: dict[str, list[int]] = {}
    for one in measured:
        if (value := value_of(one)) is not None:
            lines.setdefault(value, []).append(one.line)
    what, flag = words
    shown = ", ".join(f"{value} ({len(found)} lines, first {found[0]})" for value, found in lines.items())
    if asked is not None and asked not in lines:
        raise ProfileError(
            f"{log.path}: {flag.format(asked)} fits nothing; {name} has the {what} {shown or 'none'}"
        )
    if asked is None and len(lines) > 1:
        usual = max(lines, key=lambda value: len(lines[value]))
        raise ProfileError(
            f"{log.path}: {name} has several {what}: {shown}; a profile holds one, choose it with "
            f"{flag.format(usual)}"
        )
    chosen = asked if asked is not None else next(iter(lines), None)
    return tuple(one for one in measured if value_of(one) in (chosen, None)), chosen
