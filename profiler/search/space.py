"""The points that may be measured of one partition: every configuration at every clock."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from energyopt.schemas.partitions import PartitionConfig

COORDINATES = 6
"""Columns of `Space.coordinates`: clock, SMs, launch, the library's own choice, share of communication, and how
long communication lasts beside the compute kernels that are left when it is launched."""

OWN_SMS = 24
"""Where the library chooses the number of SMs itself, about as many as NCCL takes within a node with NVLink."""

_OWN = 0.25
"""How far apart the library's own choice and a choice of `OWN_SMS` are: near, but not the same."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run of a partition was measured to take."""

    time_s: float
    energy_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A point is a number: that of its configuration times the number of clocks, plus that of its clock.

    name: tells it from other partitions of the job.
    clocks_mhz: highest first.
    configs: the sequential one first.
    launch_at: by launch point, the share of the partition's compute time that has passed when it is reached.
    comm_share: by clock, the share of the sequential partition's time that is communication, where known.
    """

    name: str
    clocks_mhz: tuple[int, ...]
    configs: tuple[PartitionConfig, ...]
    launch_at: Mapping[str, float]
    comm_share: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.clocks_mhz) * len(self.configs)

    @property
    def sequential(self) -> range:
        """The points of sequential execution, by clock."""
        return range(len(self.clocks_mhz))

    def config(self, point: int) -> PartitionConfig:
        """A point's configuration."""
        return self.configs[point // len(self.clocks_mhz)]

    def clock_mhz(self, point: int) -> int:
        """A point's clock."""
        return self.clocks_mhz[point % len(self.clocks_mhz)]

    def point(self, config: PartitionConfig, clock_mhz: int) -> int:
        """The number of a point."""
        return self.configs.index(config) * len(self.clocks_mhz) + self.clocks_mhz.index(clock_mhz)

    def coordinates(self) -> NDArray[np.float64]:
        """Where each point lies, N x `COORDINATES`, on scales that are the same for all partitions of a job."""
        clocks = [2 * math.log(clock / self.clocks_mhz[0]) for clock in self.clocks_mhz]
        shares = [min(max(share, 0.02), 0.98) for share in self.comm_share]
        logits = [math.log(share / (1 - share)) for share in shares]
        rows = [
            (clock, *self._choice(config), logit, self._lasting(config, logit))
            for config in self.configs
            for clock, logit in zip(clocks, logits, strict=True)
        ]
        return np.array(rows)

    def _choice(self, config: PartitionConfig) -> tuple[float, float, float]:
        return math.log2(_sms(config)) / 3.5, self._launch(config), _OWN * _own(config)

    def _launch(self, config: PartitionConfig) -> float:
        return 0.0 if config.comm_launch is None else self.launch_at[config.comm_launch]

    def _lasting(self, config: PartitionConfig, logit: float) -> float:
        """Below 0 where communication ends before the compute kernels, roughly.

        With n times the SMs it is taken to last 1 / n as long. What ends last changes near 0, and much with it.
        """
        rest = max(1 - self._launch(config), 1e-3)
        return 2 * math.tanh((logit + math.log(OWN_SMS / _sms(config) / rest)) / 2)


def _sms(config: PartitionConfig) -> int:
    return OWN_SMS if config.comm_sms is None else config.comm_sms


def _own(config: PartitionConfig) -> bool:
    return config.comm_launch is not None and config.comm_sms is None
