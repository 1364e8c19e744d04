"""Torch, where it is wanted and perhaps not installed."""

from typing import Any

from energyopt.schemas.errors import RequestError


def import_torch() -> Any:
    """The module `torch`.

    Raises:
        RequestError: it is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise RequestError(
            "real kernels need torch (pip install 'energyopt[torch]'); without it, try --device sim:a100-sxm4-80gb"
        ) from error
    return torch
