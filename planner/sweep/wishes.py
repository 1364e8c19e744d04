"""What is asked of every layout's frontier, as flags of `plan` ask it of one."""

from dataclasses import dataclass, field

from energyopt.planner.composition.restriction import Only
from energyopt.planner.composition.table import Composition
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.solve import Effort
from energyopt.schemas.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """See `plan_frontier`; min_dwell_s is the clock switch latency of each profile where it is None.

    Raises:
        RequestError: limits on clock changes that cannot be.
    """

    points: int = 20
    effort: Effort = Effort.NORMAL
    max_switches: int | None = None
    min_dwell_s: float | None = None
    composition: Composition = field(default_factory=Composition)
    only: Only | None = None

    def __post_init__(self) -> None:
        SwitchLimits(max_switches=self.max_switches, min_dwell_s=self.min_dwell_s or 0.0)

    def limits(self, profile: Profile) -> SwitchLimits:
        """The limits on clock changes for plans from a profile."""
        latency_s = profile.metadata.clock_switch_latency_s or 0.0
        dwell_s = latency_s if self.min_dwell_s is None else self.min_dwell_s
        return SwitchLimits(max_switches=self.max_switches, min_dwell_s=dwell_s)
