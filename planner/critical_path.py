"""The operations that an iteration waits for: none of them can start later without making it longer."""

from energyopt.planner.graph import build_graph
from energyopt.planner.simulation import Timeline
from energyopt.schemas.ops import Schedule

TOLERANCE = 1e-9  # relative to the iteration time


def critical_ops(schedule: Schedule, timeline: Timeline, p2p_time_s: float = 0.0) -> frozenset[int]:
    """Indices into `Schedule.ops` of every operation on a longest path.

    Goes back from the operations that finish last, through those whose finish, and P2P time where the stages
    differ, is the start of one that was reached. `timeline` must start every operation as early as it can.
    """
    last_s = max(timeline.finish_s, default=0.0)
    tolerance_s = TOLERANCE * last_s
    predecessors = build_graph(schedule, p2p_time_s).predecessors
    reached = {index for index, finish_s in enumerate(timeline.finish_s) if finish_s >= last_s - tolerance_s}
    waiting = list(reached)
    while waiting:
        index = waiting.pop()
        for before, lag_s in predecessors[index]:
            spare_s = timeline.start_s[index] - timeline.finish_s[before] - lag_s
            if before not in reached and spare_s <= tolerance_s:
                reached.add(before)
                waiting.append(before)
    return frozenset(reached)
