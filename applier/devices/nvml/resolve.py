"""Which board a word means: CUDA's numbering as this process would see it, turned into a UUID once.

NVML numbers boards by their place on the PCI bus and does not look at CUDA's environment variables. The rules of
CUDA_VISIBLE_DEVICES are those of the CUDA programming guide (environment variables) and of torch.cuda, which
follows the driver: numbers are read as strtoul does, the first entry that names no board ends the list, an entry
that comes twice empties it, UUIDs may be cut short, and of MIG slices only the first is seen.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from energyopt.applier.devices.nvml.driver import NoGpuError
from energyopt.schemas.errors import DeviceError

VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
NUMBER = re.compile(r"[+-]?[0-9]+")
UUID_PREFIXES = ("GPU-", "MIG-")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBoard:
    """A board of this machine; one that does not answer has no UUID, but it keeps its place."""

    uuid: str | None
    name: str | None


def resolve(selector: str, boards: Sequence[ListedBoard], environ: Mapping[str, str]) -> str:
    """The UUID that `auto`, an ordinal of CUDA, a UUID or the beginning of one stands for.

    Args:
        selector: `auto` is the device that torch uses now where it has started CUDA, else CUDA's first.
        boards: all boards of the machine in PCI order.
        environ: the environment that CUDA reads.

    Returns:
        `GPU-...`, or `MIG-...` for a slice.

    Raises:
        DeviceError: no such board, or it is not certain which one it is.
    """
    if not boards:
        raise NoGpuError("the NVIDIA driver sees no GPU")
    if selector.startswith(UUID_PREFIXES):
        return _complete(selector, boards)
    if selector != "auto" and not selector.isdecimal():
        raise DeviceError(f"no device {selector!r}: give auto, a CUDA ordinal such as 0, or {_uuids(boards)}")
    ordinal = None if selector == "auto" else int(selector)
    started = _ask_torch(ordinal, boards)
    if started is not None:
        return started
    visible = visible_uuids(boards, environ)
    if (ordinal or 0) < len(visible):
        return visible[ordinal or 0]
    raise DeviceError(
        f"CUDA sees {len(visible)} GPU(s) here, so there is no device {ordinal or 0} "
        f"({VISIBLE} is {environ.get(VISIBLE)!r}); this machine has {_uuids(boards)}"
    )


def visible_uuids(boards: Sequence[ListedBoard], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The UUIDs that CUDA would number 0, 1, ... in this environment.

    Raises:
        DeviceError: the environment counts boards in an order that is not certain.
    """
    text = environ.get(VISIBLE)
    if text is None:
        return _in_cuda_order(boards, environ)
    entries = [entry.strip() for entry in text.split(",")]
    if entries[0].startswith("MIG-"):
        return tuple(entries[:1])
    found = (
        _by_uuid(entries, boards) if entries[0].startswith("GPU-") else _by_number(entries, boards, environ)
    )
    return found if len(set(found)) == len(found) else ()


def _by_uuid(entries: Sequence[str], boards: Sequence[ListedBoard]) -> tuple[str, ...]:
    named = list(takewhile(lambda entry: entry.startswith("GPU-"), entries))
    if len(set(named)) < len(named):
        return ()
    matches = takewhile(lambda found: len(found) == 1, (_matches(entry, boards) for entry in named))
    return tuple(found[0] for found in matches)


def _by_number(
    entries: Sequence[str], boards: Sequence[ListedBoard], environ: Mapping[str, str]
) -> tuple[str, ...]:
    numbers: list[int] = []
    for entry in entries:
        match = NUMBER.match(entry)
        if match is None or int(match[0]) < 0:
            break
        numbers.append(int(match[0]))
    if not numbers or len(set(numbers)) < len(numbers):
        return ()
    order = _in_cuda_order(boards, environ)
    end = next((place for place, number in enumerate(numbers) if number >= len(order)), len(numbers))
    return tuple(order[number] for number in numbers[:end])


def _in_cuda_order(boards: Sequence[ListedBoard], environ: Mapping[str, str]) -> tuple[str, ...]:
    """All boards as CUDA numbers them: fastest first unless told otherwise, which ties leave in PCI order."""
    known = tuple(board.uuid for board in boards if board.uuid is not None)
    if len(known) < len(boards):
        raise DeviceError(
            f"{len(boards) - len(known)} of {len(boards)} GPUs do not answer, so it is not certain how CUDA "
            f"numbers the others; name the device by its UUID: {_uuids(boards)}"
        )
    models = {board.name for board in boards}
    if len(models) > 1 and environ.get(ORDER) != "PCI_BUS_ID":
        raise DeviceError(
            f"this machine has {len(models)} models of GPU, which CUDA numbers fastest first; set "
            f"{ORDER}=PCI_BUS_ID, or name the device by its UUID: {_uuids(boards)}"
        )
    return known


def _complete(selector: str, boards: Sequence[ListedBoard]) -> str:
    if selector.startswith("MIG-"):
        return selector
    matches = _matches(selector, boards)
    if len(matches) == 1:
        return matches[0]
    raise DeviceError(
        f"{len(matches)} GPUs have a UUID that begins with {selector!r}; there are {_uuids(boards)}"
    )


def _matches(beginning: str, boards: Sequence[ListedBoard]) -> list[str]:
    return [board.uuid for board in boards if board.uuid is not None and board.uuid.startswith(beginning)]


def _uuids(boards: Sequence[ListedBoard]) -> str:
    return ", ".join(f"{board.uuid} ({board.name})" for board in boards if board.uuid is not None)


def _ask_torch(ordinal: int | None, boards: Sequence[ListedBoard]) -> str | None:
    """What torch says where it has started CUDA: the environment may have changed since."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return None
    if ordinal is None:
        ordinal = int(cuda.current_device())
    if ordinal >= cuda.device_count():
        raise DeviceError(f"CUDA sees {cuda.device_count()} GPU(s) here, so there is no device {ordinal}")
    uuid = getattr(cuda.get_device_properties(ordinal), "uuid", None)
    if uuid is None:  # torch before 2.4
        return None
    board = f"GPU-{uuid}"
    return board if any(listed.uuid == board for listed in boards) else f"MIG-{uuid}"
