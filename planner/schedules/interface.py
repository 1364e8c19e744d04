"""What a pipeline schedule has to provide."""

from typing import Protocol

from energyopt.schemas.ops import Schedule


class ScheduleBuilder(Protocol):
    """Lays out the operations of every stage; all three sizes are at least 1."""

    def __call__(self, stages: int, microbatches: int, chunks_per_stage: int) -> Schedule:
        """Build the schedule.

        Raises:
            ScheduleError: the schedule is not defined for these sizes.
        """
        ...
