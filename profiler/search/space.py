"""The points that may be measured of one partition: every configuration at every clock."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from energyopt.schemas.partitions import PartitionConfig

COORDINATES = 5
"""Columns of `Space.coordinates`: clock, SMs, launch, share of communication, the library's own choice."""

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
        clocks = [math.log(clock / self.clocks_mhz[0]) for clock in self.clocks_mhz]
        shares = [min(max(share, 0.02), 0.98) for share in self.comm_share]
        rows = [
            (2 * clock, *self._of_config(config), math.log(share / (1 - share)), _OWN * _own(config))
            for config in self.configs
            for clock, share in zip(clocks, shares, strict=True)
        ]
        return np.array(rows)

    def _of_config(self, config: PartitionConfig) -> tuple[float, float]:
        sms = OWN_SMS if config.comm_sms is None else config.comm_sms
        launch = 0.0 if config.comm_launch is None else self.launch_at[config.comm_launch]
        return math.log2(sms) / 3.5, launch


def _own(config: PartitionConfig) -> bool:
    return config.comm_launch is not None and config.comm_sms is None
