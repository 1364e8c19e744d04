"""Which power reading a board has, what it means and what it covers.

NVML has two. The field NVML_FI_DEV_POWER_INSTANT is instantaneous on every architecture, and on superchips (a CPU
and GPUs on one module) it is given for the GPU and for the module apart. nvmlDeviceGetPowerUsage averages over one
second on Ampere and newer, but for GA100 (A100, A30), and is instantaneous on GA100 and older ones (NVML
reference, device queries); what it covers on a superchip is not documented. The energy counter covers the whole
module there (measured on GH200, github.com/ml-energy/zeus/pull/172).
"""

from dataclasses import dataclass
from typing import Any

from energyopt.applier.devices.interface import Absent, PowerMeaning
from energyopt.applier.devices.nvml import sanity
from energyopt.applier.devices.nvml.driver import Board, reason

FIELD_POWER_INSTANT = 186
SCOPE_GPU, SCOPE_MODULE = 0, 1
SUPERCHIPS = ("GH200", "GB200", "GB300", "GB10")
GA100 = (8, 0)  # compute capability; the other Amperes have 8.6 and 8.7
TYPED_VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # by nvmlValueType_t


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSource:
    """How to read power.

    scope: the NVML scope of the instantaneous field, or None for nvmlDeviceGetPowerUsage.
    superchip: the energy counter covers the module.
    """

    meaning: PowerMeaning
    scope: int | None
    superchip: bool

    @property
    def excludes_counter(self) -> bool:
        """The GPU's own power is known, so that the module's energy must not stand beside it."""
        return self.superchip and self.scope == SCOPE_GPU

    @property
    def covers_module(self) -> bool:
        """The readings are those of CPU and memory as well."""
        return self.scope == SCOPE_MODULE

    def read_mw(self, board: Board) -> int | Absent:
        """Power now, mW, as the driver gives it."""
        if self.scope is not None:
            return _read_field(board, self.scope)
        if self.superchip:
            return Absent("what the power reading of this superchip covers is not known")
        value: int | Absent = board.read("nvmlDeviceGetPowerUsage")
        return value


def choose_source(board: Board, name: str) -> PowerSource:
    """The GPU's own instantaneous power where it is given, then a superchip's, then the older call.

    A superchip is told by its name: a driver that does not know of scopes gives the GPU's power for every scope.
    """
    superchip = any(chip in name for chip in SUPERCHIPS)
    for scope in (SCOPE_GPU, SCOPE_MODULE) if superchip else (SCOPE_GPU,):
        raw_mw = _read_field(board, scope)
        if not isinstance(raw_mw, Absent) and not isinstance(sanity.power_w(raw_mw, None), Absent):
            return PowerSource(meaning=PowerMeaning.INSTANT, scope=scope, superchip=superchip)
    return PowerSource(meaning=_usage_meaning(board), scope=None, superchip=superchip)


def _usage_meaning(board: Board) -> PowerMeaning:
    """An average where the architecture is not known: what is taken for instantaneous must be."""
    capability: tuple[int, int] | Absent = board.read("nvmlDeviceGetCudaComputeCapability")
    old = not isinstance(capability, Absent) and tuple(capability) <= GA100
    return PowerMeaning.INSTANT if old else PowerMeaning.AVERAGE_1S


def _read_field(board: Board, scope: int) -> int | Absent:
    values: Any = board.read("nvmlDeviceGetFieldValues", [(FIELD_POWER_INSTANT, scope)])
    if isinstance(values, Absent):
        return values
    value = values[0]
    if value.nvmlReturn != 0:
        return Absent(reason(value.nvmlReturn))
    if value.valueType >= len(TYPED_VALUES):
        return Absent(f"the driver gave power as a value of the unknown type {value.valueType}")
    return int(getattr(value.value, TYPED_VALUES[value.valueType]))
