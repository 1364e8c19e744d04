"""A partition whose costs are a formula, so that its space can be exhausted at once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from energyopt.profiler.search.space import Cost, Space
from energyopt.schemas.partitions import PLAIN, Execution, PartitionConfig

CLOCKS = tuple(range(1400, 900, -50))
LAUNCHES = {"first": 0.0, "second": 0.1, "third": 0.6}
WAIT_W = 80.0
SMS = 108


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """Compute kernels that take `compute` cycles, and communication of `talk` cycles on one SM.

    While n SMs communicate, compute kernels run on the others. Power is 60 W, and 240 W at 1400 MHz that go with
    the cube of the clock while something is computed, of which 40 % remain while it waits for the communication.
    """

    compute: float = 1e6
    talk: float = 6e6

    def cost(self, config: PartitionConfig, clock_mhz: int) -> Cost:
        """Time and energy of a configuration."""
        sms = 20 if config.comm_sms is None else config.comm_sms
        talk_s = max(self.talk / sms / (clock_mhz * 1e6), 2e-4)
        compute_s = self.compute / (clock_mhz * 1e6)
        before = 1.0 if config.comm_launch is None else LAUNCHES[config.comm_launch]
        beside_s = (1 - before) * compute_s * SMS / (SMS - sms)
        if beside_s > talk_s:  # the last of it runs on all SMs again
            beside_s = talk_s + (beside_s - talk_s) * (SMS - sms) / SMS
        busy_s = before * compute_s + beside_s
        alone_s = max(talk_s - beside_s, 0.0)
        dynamic_w = 240 * (clock_mhz / 1400) ** 3
        return Cost(busy_s + alone_s, 60 * (busy_s + alone_s) + dynamic_w * (compute_s + 0.4 * alone_s))

    def costs(self, space: Space) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Of all points, N x 2."""
        found = (self.cost(space.config(one), space.clock_mhz(one)) for one in range(len(space)))
        return np.array([(cost.time_s, cost.energy_j) for cost in found])


@pytest.fixture
def formula() -> type[Formula]:
    return Formula


@pytest.fixture
def make_space() -> Callable[..., Space]:
    """`make_space(sms=(3, 6), clocks=...)`: those SM counts and the own choice, at 3 launch points."""

    def make(
        name: str = "layer",
        sms: tuple[int, ...] = tuple(range(2, 30, 2)),
        clocks: tuple[int, ...] = CLOCKS,
        share: float = 0.3,
    ) -> Space:
        overlapped = (
            PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=count, comm_launch=launch)
            for launch in LAUNCHES
            for count in (None, *sms)
        )
        return Space(
            name=name,
            clocks_mhz=clocks,
            configs=(PLAIN, *overlapped),
            launch_at=LAUNCHES,
            comm_share=(share,) * len(clocks),
        )

    return make
