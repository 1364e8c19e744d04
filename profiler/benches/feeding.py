"""Whether the GPU always had work: what the chunks of a run tell about the time in which it waited for the host."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Steps that were launched in one go, and their time on the GPU.

    took_s: from the end of the chunk before, or from the start of the run, to the end of this one.
    fed: the chunk before was still running when all of this one was queued, so that none of `took_s` is idle.
    exposed_s: host time from the last launch of the chunk before to the last launch of this one. Only then can the
        GPU have run out of work.
    """

    steps: int
    took_s: float
    fed: bool
    exposed_s: float


def idle_share(chunks: Sequence[Chunk]) -> float:
    """The share of a run in which the GPU waited for the host, from 0 to 1.

    Chunks that were fed show how long a step takes; what the others took beyond that is idle, at most as long as
    they were exposed. Where no chunk was fed (a step that takes longer to launch than to run, or that waits for the
    GPU itself) nothing shows how long a step takes, and all the exposed time counts.
    """
    fed = [chunk for chunk in chunks if chunk.fed]
    step_s = math.fsum(chunk.took_s for chunk in fed) / sum(chunk.steps for chunk in fed) if fed else 0.0
    idle_s = math.fsum(_idle_s(chunk, step_s) for chunk in chunks if not chunk.fed)
    took_s = math.fsum(chunk.took_s for chunk in chunks)
    return idle_s / took_s if took_s > 0 else 0.0


def _idle_s(chunk: Chunk, step_s: float) -> float:
    return min(chunk.exposed_s, max(0.0, chunk.took_s - chunk.steps * step_s))
