"""Looking at boards, real and simulated, one without another: a sick one hides none."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from energyopt.applier.devices.interface import Device
from energyopt.profiler.doctor.counter import watch_counter
from energyopt.profiler.doctor.records import BoardReport, Lack
from energyopt.schemas.errors import EnergyoptError

_SICK = "see nvidia-smi and dmesg (Xid errors); the GPU may need a reset by the administrator"


def look_at_real(devices: tuple[Device, ...]) -> tuple[tuple[BoardReport, ...], tuple[Lack, ...]]:
    """Look at all boards at the same time; those that fail meanwhile become lacks. Closes them."""
    if not devices:
        return (), ()
    with ThreadPoolExecutor(len(devices)) as pool:
        found = tuple(pool.map(_look_safely, devices))
    healthy = tuple(one for one in found if isinstance(one, BoardReport))
    return healthy, tuple(one for one in found if isinstance(one, Lack))


def look(device: Device, now_s: Callable[[], float], sleep: Callable[[float], None]) -> BoardReport:
    """Look at one board, with the time that it lives in.

    Raises:
        DeviceError: it does not answer.
    """
    return BoardReport(
        identity=device.identity,
        capabilities=device.capabilities,
        state=device.state(),
        clocks_mhz=device.supported_sm_clocks_mhz(),
        counter=watch_counter(device, now_s, sleep),
    )


def sick(subject: str, problem: str) -> Lack:
    """A board that does not answer."""
    return Lack(subject=subject, problem=problem, remedy=_SICK)


def _look_safely(device: Device) -> BoardReport | Lack:
    try:
        return look(device, time.monotonic, time.sleep)
    except EnergyoptError as error:
        return sick(device.identity.uuid, str(error))
    finally:
        device.close()
