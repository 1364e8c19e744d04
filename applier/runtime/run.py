"""The run that this process is part of, as adapters see it: one session, opened when the first iteration starts."""

from collections.abc import Iterator
from contextlib import contextmanager

from energyopt.applier.runtime.current import make_current
from energyopt.applier.runtime.facts import Describe
from energyopt.applier.runtime.late import AnySession, LateSession
from energyopt.applier.runtime.off import OffSession
from energyopt.applier.runtime.opening import open_now
from energyopt.applier.runtime.reports import Reports
from energyopt.applier.runtime.settings import Mode, Settings


class Run:
    """Holds the one session of a process. Of several adapters the first that runs an iteration has it.

    A Trainer drives Accelerate, which may drive DeepSpeed: each would count the same operation again.
    """

    def __init__(self, settings: Settings, reports: Reports) -> None:
        self._settings = settings
        self._reports = reports
        self._owner: AdapterHooks | None = None
        self._describe: Describe | None = None
        self.session = LateSession(self._open)
        make_current(self.session, unless_there_is_one=True)

    def hooks_for(self, name: str) -> "AdapterHooks":
        """What the adapter of this name calls."""
        return AdapterHooks(self, name)

    def session_for(self, hooks: "AdapterHooks", describe: Describe) -> AnySession:
        """The session, opened at the first call; another adapter than its owner gets one that does nothing."""
        if self._owner is None:
            self._owner, self._describe = hooks, describe
            make_current(self.session)
        return self.session.open() if self._owner is hooks else OffSession()

    def _open(self) -> AnySession:
        plan, describe = self._settings.plan, self._describe
        if plan is None or describe is None or self._settings.mode is Mode.OFF:
            return OffSession()
        try:
            facts = describe()
        except Exception as error:  # the framework is not as the adapter knows it
            self._reports.once(
                "describe",
                f"the run cannot be told: {type(error).__name__}: {error}; training goes on unplanned",
            )
            return OffSession()
        return open_now(plan, lambda: facts, self._settings)


class AdapterHooks:
    """One adapter's hooks; see `applier.adapters.interface.Hooks`."""

    def __init__(self, run: Run, name: str) -> None:
        self._run = run
        self._session: AnySession | None = None
        self.name = name
        off = OffSession()
        self.begin = off.begin
        self.end = off.end

    @contextmanager
    def iteration(self, describe: Describe, microbatches: int, *, training: bool = True) -> Iterator[None]:
        """Around the framework's call that runs all microbatches once."""
        session = self._session
        if session is None:
            if not training:  # before the first iteration there is nothing to leave
                yield
                return
            session = self._take(describe)
        if not training:
            with session.outside():
                yield
            return
        session.start(microbatches)
        try:
            yield
        finally:
            session.finish()

    def _take(self, describe: Describe) -> AnySession:
        session = self._session = self._run.session_for(self, describe)
        self.begin, self.end = session.begin, session.end
        return session
