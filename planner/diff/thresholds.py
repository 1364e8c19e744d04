"""How much worse the new file may be, and whether it is.

A plan is worse where its predicted energy or time exceeds the old one's by more than its limit. A frontier is
worse where, for a named point of the old file, the new file holds no point at all within both limits, or no
point of that name: a point that merely moved along an equally good frontier is not worse.
"""

import math
import re
from dataclasses import dataclass

from energyopt.planner.diff.records import Change, Comparison, Group
from energyopt.planner.wording import change, number, percent_change
from energyopt.schemas.errors import NotComparableError, RequestError

NOISE = 1e-9  # relative; differences below it come from the order of additions
UNITS = {"J": {"": 1.0, "J": 1.0, "kJ": 1e3}, "s": {"": 1.0, "s": 1.0, "ms": 1e-3}}
EXAMPLES = {"J": "1%, 5J, 0.2kJ or 5 (J)", "s": "0.5%, 2s, 20ms or 0.02 (s)"}
_AMOUNT = re.compile(r"(?P<value>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(?P<unit>%|[A-Za-z]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The largest increase that passes: a share of the old value, or an amount in the quantity's unit."""

    relative: float | None = None
    absolute: float | None = None

    def allows(self, old: float, new: float) -> bool:
        """Whether `new` is no more than the limit above `old`; a decrease always is."""
        allowed = self.relative * abs(old) if self.relative is not None else self.absolute
        assert allowed is not None
        return new <= old + allowed + NOISE * abs(old)

    def words(self, unit: str) -> str:
        """The limit as a person writes it, such as `+1 %`."""
        if self.relative is not None:
            return f"+{100 * self.relative:.6g} %"
        return f"+{self.absolute:.6g} {unit}"


NO_INCREASE = Limit(relative=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a comparison; by default nothing may get worse. `asked`: the user gave one of them."""

    energy: Limit = NO_INCREASE
    time: Limit = NO_INCREASE
    asked: bool = False

    def of(self, quantity: str) -> Limit | None:
        """The limit of a quantity by its name, or None where it is not judged."""
        return {"energy_j": self.energy, "iteration_time_s": self.time}.get(quantity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One limit that the new file exceeds; `change` and `limit` are None where it lacks the point."""

    group: str
    change: Change | None
    limit: Limit | None

    def words(self) -> str:
        """The failure in one line, with its numbers."""
        if self.change is None or self.limit is None:
            return f"{self.group}: NEW has no point of this name"
        unit = self.change.unit or ""
        values = f"{number(self.change.old, unit)} {unit} -> {number(self.change.new, unit)} {unit}"
        by = f"{change(self.change.absolute, unit)} {unit}, {percent_change(self.change.relative)}"
        return f"{self.group}: {self.change.quantity} {values} ({by}), limit {self.limit.words(unit)}"


def parse_limit(text: str, unit: str, flag: str) -> Limit:
    """Read `1%` or an amount in `unit` (J or s; also kJ and ms).

    Raises:
        RequestError: anything else, a negative amount, or one that is not finite.
    """
    found = _AMOUNT.fullmatch(text.strip())
    factor = None if found is None else ({"%": 0.01} | UNITS[unit]).get(found["unit"])
    value = math.nan if found is None else float(found["value"])
    if found is None or factor is None or not math.isfinite(value):
        raise RequestError(f"{flag}: {text!r} is no increase of at least 0, such as {EXAMPLES[unit]}")
    if found["unit"] == "%":
        return Limit(relative=value / 100)
    return Limit(absolute=value * factor)


def judge(comparison: Comparison, limits: Limits) -> tuple[Failure, ...]:
    """Everything in which the new file is worse than the limits allow.

    Raises:
        NotComparableError: there is nothing to judge, so that passing would mean nothing. Two plans without a
            prediction, of which clocks alone can be compared, pass where no limit was asked for.
    """
    if not is_judged(comparison) and comparison.clocks and not limits.asked:
        return ()
    groups = [group for group in comparison.groups if group.judged and group.in_old]
    if not groups:
        raise NotComparableError("cannot compare: OLD predicts no energy and no time to judge NEW by")
    found: list[Failure] = []
    for group in groups:
        found.extend(_judge_group(group, comparison, limits))
    return tuple(found)


def is_judged(comparison: Comparison) -> bool:
    """Whether either file predicts anything that could be judged."""
    return any(group.judged and (group.in_old or group.in_new) for group in comparison.groups)


def _judge_group(group: Group, comparison: Comparison, limits: Limits) -> list[Failure]:
    if not group.in_new and comparison.new.kind == "frontier":
        return [Failure(group=group.name, change=None, limit=None)]
    found = []
    for one in group.changes:
        limit = limits.of(one.quantity)
        if limit is None:
            continue
        if one.old is None or one.new is None:
            side = "OLD" if one.old is None else "NEW"
            raise NotComparableError(
                f"cannot compare: {side} predicts no {one.quantity}, so it cannot be judged"
            )
        if not limit.allows(one.old, one.new):
            found.append(Failure(group=group.name, change=one, limit=limit))
    return [] if found and _offered(group, comparison, limits) else found


def _offered(group: Group, comparison: Comparison, limits: Limits) -> bool:
    """Whether any point of the new file keeps to both limits of this group's old point."""
    old = {one.quantity: one.old for one in group.changes}
    time_s, energy_j = old["iteration_time_s"], old["energy_j"]
    assert time_s is not None and energy_j is not None
    return any(
        limits.time.allows(time_s, other_s) and limits.energy.allows(energy_j, other_j)
        for other_s, other_j in comparison.offers
    )
