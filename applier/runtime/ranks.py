"""Which rank this process is, as torch.distributed or its launcher says: torchrun, srun or mpirun."""

import os
import sys
from collections.abc import Mapping
from typing import Any

_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
_WORLD_SIZE = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
"""Not SLURM_NTASKS, which a batch script has too, whatever it then starts."""
_LOCAL_RANK = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")


def rank(environment: Mapping[str, str] = os.environ) -> int:
    """As the launcher says; 0 for a process on its own."""
    return _number(environment, _RANK) or 0


def world_size(environment: Mapping[str, str] = os.environ) -> int:
    """As the launcher says; 1 for a process on its own."""
    return _number(environment, _WORLD_SIZE) or 1


def local_rank(environment: Mapping[str, str] = os.environ) -> int | None:
    """As the launcher says, if it does."""
    return _number(environment, _LOCAL_RANK)


def run_id(environment: Mapping[str, str] = os.environ) -> str | None:
    """What torchrun or Slurm calls this run, if they do: the same on all ranks."""
    found = (environment.get(name) for name in ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"))
    return next((one for one in found if one and one != "none"), None)  # torchrun's default is "none"


def launched_ordinal(environment: Mapping[str, str] = os.environ) -> int | None:
    """CUDA's number of the GPU that the launcher means for this rank, if it says.

    Where a launcher shows each rank one GPU alone (srun --gpus-per-task), that one is number 0.
    """
    visible = [one for one in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if one.strip()]
    return 0 if len(visible) == 1 else local_rank(environment)


def rank_and_world_size() -> tuple[int, int]:
    """From torch.distributed where it has been started, else from the launcher's environment."""
    torch = started_torch()
    if torch is None:
        return rank(), world_size()
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def started_torch() -> Any:
    """The module torch, where its default process group has been made; else None. Nothing is imported for it."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return torch


def device_ordinal() -> int | None:
    """The GPU that CUDA uses now; before CUDA has been started, the one that the launcher means, if it says."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_available() and cuda.is_initialized():
        return int(cuda.current_device())
    return launched_ordinal()


def _number(environment: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        text = environment.get(name, "")
        if text.isascii() and text.isdigit() and len(text) < 10:
            return int(text)
    return None
