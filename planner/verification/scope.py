"""What a run's numbers cover, in words: which GPUs, which ranks, which iterations."""

from collections.abc import Sequence
from itertools import pairwise

from energyopt.planner.verification.runs import MIXED, Run
from energyopt.planner.wording import gpus

_SHOWN = 8
_SCOPES = {"gpu_board": "GPU boards only", "module": "whole modules (GPU, its processor and memory)"}


def scope_lines(run: Run, skipped: int) -> tuple[str, ...]:
    """The scope of a run's energies and times."""
    meta = run.metadata
    scopes = meta.scopes
    names = sorted({gpu.name or "unnamed GPU" for gpu in meta.gpus})
    covered = ", ".join(_SCOPES.get(one, one) for one in scopes)
    energies = f"energies: {covered}; {gpus(run.gpus)} of {run.ranks} ranks ({', '.join(names)})"
    if run.without_energy:
        energies += f"; no energy from ranks {_list(run.without_energy)}"
    shared = run.ranks - run.gpus - len(run.without_energy)
    if shared:
        energies += f"; {shared} ranks share another rank's board"
    iterations = (
        f"iterations: {ranges(run.numbers.tolist())} as the run counts them, {len(run.numbers)} in all"
    )
    if meta.sampled_every > 1:
        iterations += f", every {meta.sampled_every}th recorded"
    if skipped:
        iterations += f", the first {skipped} skipped"
    return energies, iterations, f"times: of the slowest rank, operations by {meta.timer.replace('_', ' ')}"


def run_notes(run: Run) -> tuple[str, ...]:
    """What was left out of a run, or went otherwise than planned."""
    found = []
    if run.incomplete:
        found.append(f"{run.incomplete} iterations are left out: not every rank has them")
    if run.cut_short:
        found.append(
            f"{run.cut_short} iterations are left out: shorter than half the median, so no whole ones (evaluation, "
            "the end of the run)"
        )
    job = run.metadata.pipeline
    expected = job.stages * job.tensor_parallel * job.context_parallel * job.data_parallel
    if run.ranks < run.metadata.world_size:
        found.append(f"only {run.ranks} of {run.metadata.world_size} ranks are there")
    if expected != run.metadata.world_size:
        found.append(f"the run has {run.metadata.world_size} ranks, its pipeline and degrees make {expected}")
    mixed = int((run.alternative == MIXED).sum())
    if mixed:
        found.append(f"{mixed} iterations are left out: ranks ran different alternatives of the plan")
    if 0 < len(run.observers) < run.ranks:
        found.append(f"ranks {_list(run.observers)} only observed: their clocks were not the plan's")
    return tuple(found)


def ranges(numbers: Sequence[int]) -> str:
    """Numbers in rising order as text, runs of equal steps shortened: `1 to 19`, `0 to 90 by 10`."""
    if len(numbers) < 3:
        return ", ".join(str(one) for one in numbers)
    step = numbers[1] - numbers[0]
    if all(right - left == step for left, right in pairwise(numbers)):
        return f"{numbers[0]} to {numbers[-1]}" + (f" by {step}" if step > 1 else "")
    return f"{numbers[0]} to {numbers[-1]}, not all"


def _list(ranks: Sequence[int]) -> str:
    more = f" and {len(ranks) - _SHOWN} more" if len(ranks) > _SHOWN else ""
    return ", ".join(str(one) for one in ranks[:_SHOWN]) + more
