"""A plan file as it was when it was read: what it holds, and the digest of those very bytes."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

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
    """
    with reading_once():
        return LoadedPlan(plan=read_plan(path), sha256=hashlib.sha256(read_bytes(path)).hexdigest())
