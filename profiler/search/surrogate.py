"""The model of what configurations cost: exact Gaussian processes by BoTorch, fitted anew to all observations.

Two outputs: the logarithms of time and of energy relative to the same partition run sequentially at the same clock.
A kernel over clock, SMs, launch and share of communication is common to all partitions; another one, on top, is
each partition's own. Both are Matern 3/2: what overlaps has kinks where one side becomes the longer. The noise is
given, and not fitted, so that a few points cannot be taken for exact.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from energyopt.profiler.search.space import COORDINATES

NOISE = 0.004
"""Standard deviation of an observation, relative: the means of five windows of a point, and of the sequential run
that it is compared with, have 0.3 % each in energy."""

_CHUNK = 512  # candidates that are looked at together
_SEPARATE = 0.05  # a length so short that different partitions have nothing in common
_STEPS = 30  # of fitting; more change nothing that is seen

Array = NDArray[np.float64]


class Surrogate:
    """Predicts both outputs from rows of coordinates, the last column of which is the partition's number."""

    def __init__(self, rows: Array, values: Array, seed: int) -> None:
        """Fit the model; the same data and seed give the same model."""
        import torch

        with _alone(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._model = _fitted(torch.from_numpy(rows), torch.from_numpy(values))

    def predict(self, rows: Array) -> tuple[Array, Array]:
        """Means and variances of both outputs, each N x 2."""
        chunks = np.array_split(rows, max(1, -(-len(rows) // _CHUNK)))
        found = [self._posterior(chunk) for chunk in chunks]
        means = np.concatenate([mean for mean, _ in found])
        variances = [np.diagonal(covariance, axis1=1, axis2=2).T for _, covariance in found]
        return means, np.maximum(np.concatenate(variances), 0.0)

    def covariance(self, rows: Array) -> Array:
        """Covariances between some points, for each output: 2 x M x M."""
        return self._posterior(rows)[1]

    def _posterior(self, rows: Array) -> tuple[Array, Array]:
        import torch

        with _alone(), torch.no_grad():
            posterior = self._model.posterior(torch.from_numpy(rows))
            blocks = posterior.distribution.covariance_matrix.numpy()
        size = len(rows)
        own = np.stack([blocks[:size, :size], blocks[size:, size:]])  # the outputs are independent
        return posterior.mean.numpy(), own


def _fitted(rows: Any, values: Any) -> Any:
    from botorch.exceptions import ModelFittingError
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    model = SingleTaskGP(
        rows,
        values,
        train_Yvar=values.new_full(values.shape, NOISE**2),
        covar_module=_kernel(several=len(set(rows[:, -1].tolist())) > 1),
        outcome_transform=Standardize(2),
    )
    try:
        fit_gpytorch_mll(
            ExactMarginalLogLikelihood(model.likelihood, model),
            optimizer_kwargs={"options": {"maxiter": _STEPS}},
        )
    except ModelFittingError:  # few points, all alike: the priors then stand for what they do not tell
        model.eval()
    return model


def _kernel(*, several: bool) -> Any:
    """The common part; and each partition's own, where there are several."""
    import torch
    from botorch.models.kernels import CategoricalKernel

    outputs = torch.Size([2])
    common = _scaled(_matern(tuple(range(COORDINATES)), outputs), outputs)
    if not several:
        return common
    which = CategoricalKernel(batch_shape=outputs, active_dims=(COORDINATES,))
    which.lengthscale = _SEPARATE
    which.raw_lengthscale.requires_grad_(False)
    own = tuple(one for one in range(COORDINATES) if one != _SHARE)
    return common + _scaled(_matern(own, outputs) * which, outputs)


_SHARE = 4  # the column that only tells partitions apart


def _matern(columns: tuple[int, ...], outputs: Any) -> Any:
    from gpytorch.kernels import MaternKernel
    from gpytorch.priors import LogNormalPrior

    return MaternKernel(
        nu=1.5,
        ard_num_dims=len(columns),
        active_dims=columns,
        batch_shape=outputs,
        lengthscale_prior=LogNormalPrior(0.0, 1.0),
    )


def _scaled(kernel: Any, outputs: Any) -> Any:
    from gpytorch.kernels import ScaleKernel
    from gpytorch.priors import GammaPrior

    return ScaleKernel(kernel, batch_shape=outputs, outputscale_prior=GammaPrior(2.0, 0.15))


@contextmanager
def _alone() -> Iterator[None]:
    """One thread: the matrices are small, and on a busy machine several wait for each other most of the time.

    These libraries warn of what only their own authors can act on.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)
