"""Before the first clock is set: may the site have locked the board? NVML cannot tell; a clock under load can."""

from energyopt.applier.devices.interface import Absent, Device, Throttle
from energyopt.applier.devices.site_lock import EXPLAINED, NEAR, lock_cannot_be_known, refuse_if_locked
from energyopt.applier.helper.sampling import INTERVAL_NS
from energyopt.applier.runtime.channel import BEGIN, Record

_LOOKS = 25
"""Half a second under load: a board that came out of idle has reached its clock by then."""


class FirstLook:
    """Looks at a board while training's first operations run, at the clocks that were found.

    One look at the highest clock is enough to know that nothing is locked.
    """

    def __init__(self, device: Device | None, *, known: bool) -> None:
        self._device = None if known or device is None or not lock_cannot_be_known(device) else device
        self._working = False
        self._seen_mhz: list[int] = []
        self._next_ns = 0

    def feed(self, record: Record) -> None:
        """Learn from the training thread's records whether it has begun to work."""
        self._working = self._working or record.kind == BEGIN

    def allows(self, now_ns: int) -> bool:
        """Whether clocks may be set by now.

        Raises:
            ClockControlError: the board is perhaps locked by the site.
            DeviceError: the board is gone.
        """
        if self._device is None:
            return True
        if self._working and now_ns >= self._next_ns:
            self._next_ns = now_ns + INTERVAL_NS
            self._look(self._device)
        return self._device is None

    def _look(self, device: Device) -> None:
        state = device.state()
        throttle = Throttle(0) if isinstance(state.throttle, Absent) else state.throttle
        if throttle & Throttle.GPU_IDLE:
            return
        highest_mhz = device.supported_sm_clocks_mhz()[0]
        clock_mhz = highest_mhz if isinstance(state.sm_clock_mhz, Absent) else state.sm_clock_mhz
        if clock_mhz >= NEAR * highest_mhz or throttle & EXPLAINED:
            self._device = None
            return
        self._seen_mhz.append(clock_mhz)
        if len(self._seen_mhz) >= _LOOKS:
            refuse_if_locked(device, self._seen_mhz, throttle)
