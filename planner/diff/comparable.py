"""Whether two files describe the same job, so that a difference between them means something."""

from collections.abc import Iterable
from enum import StrEnum

from energyopt.planner.diff.records import Side
from energyopt.planner.wording import gpus
from energyopt.schemas.errors import NotComparableError


class Allowance(StrEnum):
    """A difference between two jobs that a comparison may be told to accept."""

    DEVICE = "device"
    MICROBATCHES = "microbatches"
    SCHEDULE = "schedule"
    STAGES = "stages"
    DEGREES = "degrees"


_SETTINGS = {
    "stages": Allowance.STAGES,
    "microbatches": Allowance.MICROBATCHES,
    "schedule": Allowance.SCHEDULE,
    "chunks_per_stage": Allowance.SCHEDULE,
    "tensor_parallel": Allowance.DEGREES,
    "context_parallel": Allowance.DEGREES,
    "data_parallel": Allowance.DEGREES,
}
_TIMES = ("p2p_time_s", "fixed_time_s")


def check_comparable(old: Side, new: Side, allow: frozenset[str]) -> tuple[str, ...]:
    """Refuse two different jobs; return what a reader should know about two that may be compared.

    Raises:
        NotComparableError: they differ in something that `allow` does not name; the text says in what.
    """
    if old.kind != new.kind:
        raise NotComparableError(f"cannot compare: OLD is a {old.kind} and NEW is a {new.kind}")
    if old.scope != new.scope:
        raise NotComparableError(
            f"cannot compare: OLD's energies are of scope {old.scope} and NEW's of scope {new.scope}"
        )
    differences = _differences(old, new)
    refused = [(text, need) for text, need in differences if not need & allow]
    if refused:
        texts = "; ".join(text for text, _ in refused)
        wanted = " ".join(f"--allow {name}" for name in _names(need for _, need in refused))
        raise NotComparableError(f"cannot compare: {texts}; {wanted} compares them all the same")
    return (*(f"different jobs, allowed: {text}" for text, _ in differences), *_notes(old, new))


def _names(needs: Iterable[frozenset[str]]) -> list[str]:
    return list(dict.fromkeys(min(need) for need in needs))


def _differences(old: Side, new: Side) -> list[tuple[str, frozenset[str]]]:
    """Each difference as text, with the allowances of which one is enough to accept it."""
    found: list[tuple[str, frozenset[str]]] = []
    for name in ("device_name", "device_kind"):
        one, other = getattr(old, name), getattr(new, name)
        if one != other:
            found.append((f"{name} is {one!r} and {other!r}", frozenset({Allowance.DEVICE})))
    for name, allowance in _SETTINGS.items():
        one, other = getattr(old.pipeline, name), getattr(new.pipeline, name)
        if one != other:
            found.append((f"{name} is {one} and {other}", frozenset({allowance})))
    if old.gpus != new.gpus:
        need = frozenset({Allowance.DEGREES, Allowance.STAGES})
        found.append((f"totals cover {gpus(old.gpus)} and {gpus(new.gpus)}", need))
    if _same_settings(old, new) and old.orders != new.orders:
        text = f"the operations of schedule {old.pipeline.schedule}, or their order, differ"
        found.append((text, frozenset({Allowance.SCHEDULE})))
    return found


def _same_settings(old: Side, new: Side) -> bool:
    names = ("stages", "microbatches", "schedule", "chunks_per_stage")
    return all(getattr(old.pipeline, name) == getattr(new.pipeline, name) for name in names)


def _notes(old: Side, new: Side) -> list[str]:
    found = []
    if old.profile_sha256 is None or new.profile_sha256 is None:
        found.append("not every file says which profile it was made from")
    elif old.profile_sha256 != new.profile_sha256:
        digests = f"{old.profile_sha256[:12]} and {new.profile_sha256[:12]}"
        found.append(f"made from different profiles: {digests}")
    if old.wait_power_w != new.wait_power_w:
        found.append(f"wait power is {old.wait_power_w:g} W and {new.wait_power_w:g} W")
    for name in _TIMES:
        one, other = getattr(old.pipeline, name), getattr(new.pipeline, name)
        if one != other:
            found.append(f"{name} is {one:g} and {other:g}")
    return found
