"""What the user wants of the shim, as environment variables carry it to every rank."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path

from energyopt.applier.devices.site_lock import parse_site_lock
from energyopt.schemas.errors import RequestError

PREFIX = "ENERGYOPT_"


class Mode(StrEnum):
    """What the shim does."""

    APPLY = "apply"
    OBSERVE = "observe"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The shim's settings; each is the environment variable ENERGYOPT_ and its name in capitals.

    telemetry: folder for this run's shards, one per rank; None records nothing.
    sample_every: every how many iterations is recorded.
    device: the GPU, as `profile --device` takes it, instead of the one that this rank uses; `none` for none.
    slowdown: how much longer than the plan's an iteration may take, for a straggler elsewhere.
    slowdown_file: a file that holds such a number, looked at every second; it may come and go during the run.
    site_lock_mhz: LOW:HIGH of a lock that the site had set, to be put back at the end, or `none` where there was
        none; if not given, the board is looked at before its first clock is set.
    switch_latency_s: how far ahead clocks are asked for, instead of what was measured.
    """

    plan: Path | None = None
    mode: Mode = Mode.APPLY
    telemetry: Path | None = None
    sample_every: int = 10
    device: str | None = None
    slowdown: float = 1.0
    slowdown_file: Path | None = None
    site_lock_mhz: str | None = None
    switch_latency_s: float | None = None

    def to_environment(self) -> dict[str, str]:
        """The variables that `from_environment` reads; absent settings have none. Paths become absolute."""
        found = {variable: getattr(self, name) for name, variable in VARIABLES.items()}
        return {
            variable: str(value.absolute() if isinstance(value, Path) else value)
            for variable, value in found.items()
            if value is not None
        }


VARIABLES = {field.name: PREFIX + field.name.upper() for field in fields(Settings)}
"""Each setting's environment variable."""


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings that the environment gives; an empty variable counts as absent.

    Raises:
        RequestError: a value that cannot be; names the variable.
    """

    def text(name: str) -> str | None:
        return environment.get(PREFIX + name) or None

    def path(name: str) -> Path | None:
        value = text(name)
        return None if value is None else Path(value)

    mode = text("MODE") or Mode.APPLY
    if mode not in list(Mode):
        raise RequestError(f"{PREFIX}MODE is {mode!r}, which is none of {', '.join(Mode)}")
    latency = text("SWITCH_LATENCY_S")
    return Settings(
        plan=path("PLAN"),
        mode=Mode(mode),
        telemetry=path("TELEMETRY"),
        sample_every=_whole("SAMPLE_EVERY", text("SAMPLE_EVERY") or "10"),
        device=training_device(text("DEVICE"), PREFIX + "DEVICE"),
        slowdown=_number("SLOWDOWN", text("SLOWDOWN") or "1.0", 1.0),
        slowdown_file=path("SLOWDOWN_FILE"),
        site_lock_mhz=_site_lock(text("SITE_LOCK_MHZ")),
        switch_latency_s=None if latency is None else _number("SWITCH_LATENCY_S", latency, 0.0),
    )


def training_device(text: str | None, source: str) -> str | None:
    """A device that a training run can have, as the user's option or variable `source` gives it.

    Raises:
        RequestError: a simulated one, which no training runs on.
    """
    if text is not None and text.startswith("sim:"):
        raise RequestError(
            f"{source} is {text!a}, a simulated GPU, which no training runs on: give nvml:UUID, nvml:N or none"
        )
    return text


def _site_lock(text: str | None) -> str | None:
    try:
        parse_site_lock(text)
    except RequestError:
        name = f"{PREFIX}SITE_LOCK_MHZ"
        raise RequestError(f"{name} is {text!a}, neither LOW:HIGH, such as 210:1200, nor none") from None
    return text


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= 1):
        raise RequestError(f"{PREFIX}{name} is {text!r}; it takes a whole number of at least 1")
    return int(text)


def _number(name: str, text: str, least: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= least):
        raise RequestError(f"{PREFIX}{name} is {text!r}; it takes a number of at least {least:g}")
    return value
