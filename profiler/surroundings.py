"""What around a run its user should know before it begins: others on the board, journals that may be lost."""

from collections.abc import Iterator

from energyopt.applier.devices.interface import Absent, Device
from energyopt.applier.guard.container import ADVICE, fleeting_state_folder

REAL = "nvml"


def others_on(board: Device) -> Iterator[str]:
    """A warning where other processes have work on a real board; to be asked before this one has.

    Raises:
        DeviceError: the board is gone.
    """
    if board.identity.kind != REAL:
        return
    from energyopt.applier.devices.nvml.processes import count_others

    others, identity = count_others(board.identity.uuid), board.identity
    if isinstance(others, Absent) or not others:
        return
    who = "1 other process has" if others == 1 else f"{others} other processes have"
    yield (
        f"{who} work on {identity.name} ({identity.uuid}): what they use is counted as this run's, and "
        "they slow it down; end them, or measure on a GPU of your own"
    )


def fleeting_journal(board: Device) -> Iterator[str]:
    """A warning where clocks of a real board are set and the journal goes with this container.

    Raises:
        ClockControlError: there is no state folder.
    """
    if board.identity.kind == REAL and (folder := fleeting_state_folder()) is not None:
        yield f"the clock journal is in {folder}, in this container's own layer: {ADVICE}"
