"""NVIDIA GPUs through NVML, the driver's management library. Standard library alone until a device is opened."""

from energyopt.applier.devices.nvml.opening import list_devices as list_devices
from energyopt.applier.devices.nvml.opening import open_nvml as open_nvml

__all__ = [
    "capabilities",
    "clocks",
    "device",
    "driver",
    "opening",
    "power",
    "processes",
    "remedies",
    "resolve",
    "rights",
    "sanity",
]
