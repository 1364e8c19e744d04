"""The block that sets clocks and always gives them back.

    with guarded_clocks(device) as clocks:
        clocks.lock(1410)

Entering takes the boards for this process, puts right what a killed run left, and starts the guard process; the
first `lock` journals how a board stands, then sets it. Leaving gives the clocks back as they were found, checks
that, and removes the journal. If this process is killed instead, the guard does it; if both are, the next run or
`energyopt doctor --restore` does. A guard that was killed is replaced at the next `lock`.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from energyopt.applier.devices.interface import Device, FoundClocks
from energyopt.applier.guard import forks
from energyopt.applier.guard.journal import (
    Journal,
    Origin,
    boot_id,
    host_name,
    journal_path,
    make_state_folder,
    read_journal,
    write_journal,
)
from energyopt.applier.guard.locks import SIMULATED, take_lock
from energyopt.applier.guard.owner import this_process
from energyopt.applier.guard.process import Guard, start_guard
from energyopt.applier.guard.restore import give_back
from energyopt.applier.guard.signals import deferred_signals
from energyopt.schemas.errors import ClockControlError, DeviceError, EnergyoptError

_HUNG_S = 15.0
"""How long a set may take before it is the guard that gives back."""


@contextmanager
def guarded_clocks(*devices: Device) -> Iterator["HeldClocks"]:
    """Hold the clocks of some boards, all or none.

    Simulated boards are given back too, without journal and guard: they end with this process.

    Raises:
        ClockControlError: clocks cannot be set on one of them, guarded, or given back; names the board.
        DeviceError: another process holds one of them.
    """
    held = HeldClocks(devices)
    try:
        with deferred_signals():
            held.start()
        yield held
    finally:
        with deferred_signals():
            held.stop()


class HeldClocks:
    """Boards whose clocks this process may set; made by `guarded_clocks`.

    recovered: what killed runs had left, which was put right at the start.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self.recovered: tuple[Journal, ...] = ()
        self._devices = {device.identity.uuid: device for device in devices}
        self._repeated = len(self._devices) < len(devices)
        self._pid = os.getpid()
        self._paths: dict[str, Path] = {}
        self._locks: list[int] = []
        self._guard: Guard | None = None
        self._running = False
        self._found: dict[str, FoundClocks] = {}  # of the boards that may stand otherwise than found
        self._clocks: dict[str, int | None] = {}  # asked for; None where a set did not end well
        self._one_at_a_time = threading.RLock()  # clocks may be set from a polling thread

    @property
    def guard_pid(self) -> int | None:
        """The guard's process number; None where all boards are simulated."""
        return None if self._guard is None else self._guard.pid

    def start(self) -> None:
        """Take the boards and start the guard; nothing is set but what a killed run left."""
        if self._repeated:
            raise DeviceError("the same GPU was given twice; give each once")
        for device in self._devices.values():
            _check_settable(device)
        real = [uuid for uuid, device in self._devices.items() if device.identity.kind != SIMULATED]
        if real:
            folder = make_state_folder()
            self._paths = {uuid: journal_path(folder, uuid) for uuid in real}
            for uuid, path in sorted(self._paths.items()):
                self._locks.append(take_lock(path, uuid))
                self._recover(self._devices[uuid], path)
            self._guard = start_guard(self._paths, self._locks)
        self._running = True

    def lock(self, sm_clock_mhz: int) -> None:
        """Ask all boards for one of their supported clocks; a board that has been asked for it is left alone.

        If one refuses, the others are put back to what they had before.

        Raises:
            ClockControlError: refused, or no guard can be had; names the board.
        """
        with self._one_at_a_time:
            self._lock_all(sm_clock_mhz)

    def _lock_all(self, sm_clock_mhz: int) -> None:
        self._check_running()
        before = dict(self._clocks)
        for uuid, device in self._devices.items():
            if self._clocks.get(uuid) == sm_clock_mhz:
                continue
            try:
                self._set(uuid, device, sm_clock_mhz)
            except EnergyoptError:
                self._roll_back(before)
                raise

    def stop(self) -> None:
        """Give everything back; a forked worker that leaves the block by its copy changes nothing.

        Raises:
            ClockControlError: a board could not be given back, neither from here nor by the guard.
        """
        if os.getpid() != self._pid:
            return
        self._running = False
        if not self._one_at_a_time.acquire(timeout=_HUNG_S):
            self._leave_to_guard()
        try:
            self._give_all_back()
        finally:
            self._one_at_a_time.release()

    def _give_all_back(self) -> None:
        failures = {uuid: reason for uuid in tuple(self._found) if (reason := self._give_back(uuid))}
        if self._guard is not None:
            self._end_guard(self._guard, failures)
        for lock in self._locks:
            forks.close(lock)
        if failures:
            raise ClockControlError(
                f"clocks were not given back: {'; '.join(failures.values())}; "
                "run energyopt doctor --restore, or nvidia-smi -rgc (and -rac) as root"
            )

    def _leave_to_guard(self) -> None:
        """A set hangs in the driver and may still land: whoever gives back then has to come after it."""
        if self._guard is not None:
            self._guard.take_over()
        raise ClockControlError(
            f"the driver has not answered for {_HUNG_S:g} s; if energyopt doctor shows clocks left behind, "
            "run energyopt doctor --restore"
        )

    def _recover(self, device: Device, path: Path) -> None:
        """What was found before a killed run is the truth, not what stands now."""
        if not path.exists():
            return
        journal = read_journal(path)
        origin = journal.origin()
        if origin is Origin.OTHER_HOST:
            raise DeviceError(
                f"{path} is the journal of {journal.uuid} on {journal.host}; "
                "if that host no longer has this GPU, delete the file"
            )
        if origin is Origin.THIS_BOOT:
            give_back(device, journal.found)
            self.recovered += (journal,)
        path.unlink()

    def _check_running(self) -> None:
        if os.getpid() != self._pid:
            raise ClockControlError(
                f"clocks are held by process {self._pid}; a forked worker cannot set them"
            )
        if not self._running:
            raise ClockControlError("clocks can be set inside the block of guarded_clocks only")
        if self._guard is not None and not self._guard.alive():
            with deferred_signals():
                self._guard.take_over()
                self._guard = start_guard(self._paths, self._locks)

    def _set(self, uuid: str, device: Device, sm_clock_mhz: int) -> None:
        if uuid not in self._found:
            found = device.find_clocks()
            if uuid in self._paths:
                _write(self._paths[uuid], device, found)
            self._found[uuid] = found
        first = uuid not in self._clocks
        self._clocks[uuid] = None
        try:
            device.lock_sm_clock(sm_clock_mhz)
        except ClockControlError:
            if first:  # a refusal changes nothing, and giving back would be refused as well
                self._forget(uuid)
            raise
        self._clocks[uuid] = sm_clock_mhz

    def _roll_back(self, before: dict[str, int | None]) -> None:
        """Undo half a set; what refuses this too is reported when the block is left."""
        for uuid in tuple(self._found):
            earlier = before.get(uuid)
            if earlier is None:
                self._give_back(uuid)
            elif self._clocks[uuid] != earlier:
                with suppress(EnergyoptError):
                    self._set(uuid, self._devices[uuid], earlier)

    def _give_back(self, uuid: str) -> str | None:
        """Give one board back; why that failed, or None."""
        try:
            give_back(self._devices[uuid], self._found[uuid])
        except Exception as error:  # whatever it is, the other boards and the guard still have their turn
            return str(error)
        self._forget(uuid)
        return None

    def _forget(self, uuid: str) -> None:
        """The board stands as it was found."""
        if uuid in self._paths:
            self._paths[uuid].unlink(missing_ok=True)
        self._clocks.pop(uuid, None)
        del self._found[uuid]

    def _end_guard(self, guard: Guard, failures: dict[str, str]) -> None:
        """Let the guard try, through a driver connection of its own, what failed from here."""
        if not failures:
            guard.dismiss()
            return
        guard.take_over()
        for uuid in tuple(failures):
            if uuid in self._paths and not self._paths[uuid].exists():
                del failures[uuid]


def _check_settable(device: Device) -> None:
    """Refuse, before anything is touched, a board that is known to refuse."""
    reason = device.capabilities.set_clocks
    if reason is None:
        return
    remedy = device.capabilities.remedies.get("set_clocks")
    raise ClockControlError(
        f"clocks cannot be set on {device.identity.name} ({device.identity.uuid}): {reason}"
        + (f"; {remedy}" if remedy else "")
    )


def _write(path: Path, device: Device, found: FoundClocks) -> None:
    identity = device.identity
    journal = Journal(
        uuid=identity.uuid,
        device_name=identity.name,
        host=host_name(),
        boot_id=boot_id(),
        owner=this_process(),
        found=found,
    )
    write_journal(path, journal)
