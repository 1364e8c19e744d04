"""What an output format is given, and what it must be able to do."""

from dataclasses import dataclass
from typing import Protocol

from energyopt.planner.diff.records import Comparison
from energyopt.planner.diff.thresholds import Failure, Limits, is_judged
from energyopt.planner.wording import device, gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A judged comparison; the file names are as the user gave them."""

    old_file: str
    new_file: str
    comparison: Comparison
    limits: Limits
    failures: tuple[Failure, ...]

    def heading(self) -> str:
        """What is compared, for which job, and how many GPUs the totals cover."""
        side = self.comparison.new
        job = side.pipeline
        return (
            f"{side.kind} {self.new_file} against {self.old_file}: {device(side.device_name, side.device_kind)}, "
            f"{job.stages} stages x {job.microbatches} microbatches, {job.schedule}; {self.coverage()}"
        )

    def coverage(self) -> str:
        """How many GPUs the totals cover, such as `totals cover 8 GPUs`."""
        old, new = self.comparison.old.gpus, self.comparison.new.gpus
        return (
            f"totals cover {gpus(new)}"
            if old == new
            else f"totals cover {gpus(old)} in OLD, {gpus(new)} in NEW"
        )

    def verdict(self) -> str:
        """The outcome in one line, with the limits that decided it."""
        if not is_judged(self.comparison):
            compared = "clocks and partitions" if self.comparison.executions else "clocks"
            return f"not judged: neither file predicts energy or time; only {compared} were compared"
        limits = f"energy {self.limits.energy.words('J')}, time {self.limits.time.words('s')}"
        count = len(self.failures)
        if not count:
            return f"not worse (limits: {limits})"
        return f"worse: {count} {'finding' if count == 1 else 'findings'} (limits: {limits})"


class Renderer(Protocol):
    """Turns a report into text; adds nothing and decides nothing."""

    def __call__(self, report: Report) -> str:
        """The whole output, with a newline at its end."""
        ...
