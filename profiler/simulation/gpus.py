"""The GPUs that can be simulated, by the name that `--device sim:NAME` takes."""

from collections.abc import Mapping
from types import MappingProxyType

from energyopt.profiler.simulation.ampere import A40, A100_40GB, A100_80GB
from energyopt.profiler.simulation.hopper import H100, H200
from energyopt.profiler.simulation.spec import GpuSpec

GPUS: Mapping[str, GpuSpec] = MappingProxyType(
    {
        "a100-sxm4-40gb": A100_40GB,
        "a100-sxm4-80gb": A100_80GB,
        "a40": A40,
        "h100-sxm5-80gb": H100,
        "h200": H200,
    }
)
"""What is known of each."""
