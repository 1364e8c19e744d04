"""Opening the board that a rank runs on, and finding out before training starts what can be done with it."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from energyopt.applier.devices.interface import Absent, Device
from energyopt.applier.devices.site_lock import WithSiteLock
from energyopt.applier.guard.hold import HeldClocks, guarded_clocks
from energyopt.applier.guard.locks import reserved
from energyopt.applier.helper.orders import Orders
from energyopt.schemas.errors import ClockControlError, EnergyoptError


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A rank's board.

    device: None where there is none, or it cannot be opened.
    held: what sets its clocks; None where they are only observed.
    problems: why it is not as the user asked, each one line.
    """

    device: Device | None
    held: HeldClocks | None
    problems: tuple[str, ...]


@contextmanager
def open_board(orders: Orders) -> Iterator[Board]:
    """The board for as long as the block runs; its clocks are given back however that ends."""
    with ExitStack() as stack:
        problems: list[str] = []
        device = _open(orders, problems)
        if device is None:
            yield Board(device=None, held=None, problems=tuple(problems))
            return
        stack.callback(device.close)
        held = _hold(stack, device, orders, problems) if orders.apply else None
        if held is None:
            _reserve(stack, device, problems)
        yield Board(device=device, held=held, problems=tuple(problems))


def _open(orders: Orders, problems: list[str]) -> Device | None:
    from energyopt.applier.devices.nvml import open_nvml

    if orders.device is None:
        return None
    try:
        device = open_nvml(orders.device)
        return device if orders.site_lock_mhz is None else WithSiteLock(device, orders.site_lock_mhz)
    except EnergyoptError as error:
        problems.append(str(error))
        return None


def _hold(stack: ExitStack, device: Device, orders: Orders, problems: list[str]) -> HeldClocks | None:
    try:
        _check_fits(device, orders)
        return stack.enter_context(guarded_clocks(device))
    except EnergyoptError as error:
        problems.append(str(error))
        return None


def _check_fits(device: Device, orders: Orders) -> None:
    """Refuse a board that the plan was not made for.

    Raises:
        ClockControlError: another GPU, or one that lacks a clock of the plan.
    """
    name = device.identity.name
    if name != orders.device_name:
        raise ClockControlError(
            f"the plan is for {orders.device_name}, this GPU is {name}; plan for this one"
        )
    supported = device.supported_sm_clocks_mhz()
    asked = {clock for clocks in orders.clocks_mhz for clock in clocks} | {orders.safe_mhz}
    if supported and (lacking := sorted(asked - set(supported))):
        raise ClockControlError(
            f"{name} lacks {_some(lacking)} MHz, which the plan asks for; it has {min(supported)} to "
            f"{max(supported)} MHz: profile this GPU and plan again"
        )


def _some(clocks_mhz: Sequence[int]) -> str:
    shown = ", ".join(map(str, clocks_mhz[:4]))
    return shown if len(clocks_mhz) <= 4 else f"{shown} and {len(clocks_mhz) - 4} more clocks of"


def _reserve(stack: ExitStack, device: Device, problems: list[str]) -> None:
    """Keep other runs off a board that is only read, where that is possible: its energy is still worth having."""
    try:
        stack.enter_context(reserved(device))
    except EnergyoptError as error:
        problems.append(f"{error}; its energy may include what others use")


def energy_source(device: Device | None) -> str | None:
    """Where a board's energy comes from: `counter`, `power_integral`, or None."""
    if device is None:
        return None
    if not isinstance(device.energy_j(), Absent):
        return "counter"
    return None if isinstance(device.power_w(), Absent) else "power_integral"
