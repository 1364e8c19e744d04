"""How many SMs a GPU has, so that a setting with more of them is refused.

Known by name: V100 80, A100 108, A40 84, H100 SXM 132 and H200 132, by NVIDIA's GV100, GA100, GA102 and GH100
whitepapers and the boards' datasheets. An H100 whose name does not say its form may be another than SXM; none has
more.
"""

import re

from energyopt.schemas.nodes import Node

_KNOWN = {"V100": 80, "A100": 108, "A40": 84, "H100": 132, "H200": 132}
_NAME = re.compile(rf"(?<![A-Z0-9])({'|'.join(_KNOWN)})(?![A-Z0-9])", re.ASCII | re.IGNORECASE)


def sms_of(device_name: str, told: int | None = None) -> int | None:
    """The SMs of a GPU; None where neither the user nor its name says.

    told: what the user says; it goes first, as some sites have boards of their own and others use a slice.
    """
    found = _NAME.search(device_name)
    return told if told is not None or found is None else _KNOWN[found[1].upper()]


def too_many(count: int, device_name: str, sms: int | None) -> str | None:
    """What is wrong with so many SMs for communication on a GPU that has `sms`; None where it can be."""
    if sms is None or count <= sms:
        return None
    return f"{count} SMs, but {device_name} has {sms}; where that is wrong, pass --sms"


def check_sms(node: Node, count: int, device_name: str, sms: int | None) -> None:
    """Refuse a setting with more SMs than the GPU has.

    Raises:
        FileFormatError: names the place, the count and the GPU's SMs.
    """
    if problem := too_many(count, device_name, sms):
        node.fail(problem)
