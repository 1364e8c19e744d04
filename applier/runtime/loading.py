"""A plan file as it was when it was read: what it holds, and the digest of those very bytes."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from energyopt.applier.runtime.checks import refuse_clocks_of_partitions
from energyopt.schemas.files import read_bytes, reading_once
from energyopt.schemas.plan import Plan, read_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPlan:
    """A plan, and the SHA-256 of its file's content in hexadecimal."""

    plan: Plan
    sha256: str


def load_plan(path: Path) -> LoadedPlan:
    """Read a plan file, once.

    Raises:
        FileFormatError: names the file and the field at fault.
        RequestError: the shim cannot run such a plan.
    """
    with reading_once():
        loaded = LoadedPlan(plan=read_plan(path), sha256=hashlib.sha256(read_bytes(path)).hexdigest())
    refuse_clocks_of_partitions(loaded.plan)
    return loaded
