"""The board that a request means."""

import pytest

from energyopt.applier.devices import nvml
from energyopt.applier.devices.nvml.driver import NoGpuError
from energyopt.profiler.opening import open_board
from energyopt.schemas.errors import DeviceError


def test_a_machine_without_a_gpu_is_told_what_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, and not in a training run, which no simulated GPU helps."""

    def find_nothing(_selector: str) -> None:
        raise NoGpuError("no NVIDIA driver")

    monkeypatch.setattr(nvml, "open_nvml", find_nothing)
    with pytest.raises(DeviceError, match="no NVIDIA driver; use --device sim:a100-sxm4-80gb to try"):
        open_board("auto", None, kernels_on="cpu")
