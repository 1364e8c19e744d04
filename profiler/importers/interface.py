"""What every importer gives, and how it is called."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What was measured of one instruction of one chunk of one stage.

    peers: GPUs that the stage was measured on.
    missing_clocks_mhz: clocks that other instructions or stages were measured at, and this one was not.
    missing_peers: single GPUs that were not measured at a clock where others of the stage were, as text.
    """

    stage: int
    chunk: int
    op: OpKind
    clocks: int
    lowest_mhz: int
    highest_mhz: int
    peers: int
    missing_clocks_mhz: tuple[int, ...] = ()
    missing_peers: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Everything that is absent, one text each."""
        name = OpKey(self.stage, self.chunk, self.op)
        absent = tuple(f"{name} at {clock} MHz" for clock in self.missing_clocks_mhz)
        return absent + tuple(f"{name} at {peer}" for peer in self.missing_peers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedProfile:
    """A profile, how complete its source was, and what the user should know about it."""

    profile: Profile
    coverage: tuple[Coverage, ...]
    warnings: tuple[str, ...]


class Importer(Protocol):
    """Reads one source format; further settings of a format are keyword arguments with defaults."""

    def __call__(self, path: Path, *, device_name: str, wait_power_w: float) -> ImportedProfile:
        """Read `path`, measured on GPUs of `device_name` whose wait power is `wait_power_w` watts.

        Raises:
            FileFormatError: the file is damaged or not of this format; names file, line, column and value.
            ProfileError: its measurements contradict each other or are incomplete.
        """
