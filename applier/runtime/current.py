"""The session of this process, for a training script that has not opened one itself."""

from energyopt.applier.runtime.late import LateSession
from energyopt.applier.runtime.off import OffSession

_CURRENT: list[LateSession] = []


def current_session() -> LateSession | OffSession:
    """The session that training runs in; one that does nothing where there is none.

    In a job whose framework is hooked this is where a slowdown is asked for:

        energyopt.applier.current_session().set_slowdown(1.1)

    Ask each time: before the framework has been imported there is none yet.
    """
    return _CURRENT[-1] if _CURRENT else OffSession()


def make_current(session: LateSession, *, unless_there_is_one: bool = False) -> None:
    """It is the one from here on."""
    if not (unless_there_is_one and _CURRENT):
        _CURRENT[:] = [session]
