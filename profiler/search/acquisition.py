"""How much a measurement can be expected to move a front: the expected hypervolume improvement.

Estimated with the same quasi-random draws for all candidates, which may be all of a space: spaces are small and
discrete. BoTorch's own acquisition functions are smooth, for gradients that nobody needs here, and some twenty
times as slow on that many candidates; the tests hold the two equal.
"""

import numpy as np
from numpy.typing import NDArray

from energyopt.profiler.search.front import Values, front_of

DRAWS = 128


def normal_draws(seed: int, draws: int = DRAWS) -> NDArray[np.float64]:
    """Quasi-random standard normal numbers, draws x 2."""
    from scipy.stats import norm, qmc  # type: ignore[import-untyped]

    sobol = qmc.Sobol(2, rng=np.random.default_rng(seed))
    uniform: NDArray[np.float64] = np.clip(sobol.random(draws), 1e-6, 1 - 1e-6)
    return np.asarray(norm.ppf(uniform))


def expected_gain(
    samples: NDArray[np.float64], seen: Values, reference: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The area that each of C candidates is expected to add, from S draws of its two objectives.

    The region that a front of K points does not dominate is cut into K + 1 upright strips; a draw adds what its
    quadrant covers of each.
    """
    front = front_of(seen[np.all(seen < reference, axis=1)])
    left = np.concatenate(([-np.inf], front[:, 0]))
    right = np.concatenate((front[:, 0], reference[:1]))
    top = np.concatenate((reference[1:], front[:, 1]))
    gain_SC = np.zeros(samples.shape[:2])
    for low, high, ceiling in zip(left, right, top, strict=True):
        width = high - np.maximum(samples[..., 0], low)
        height = ceiling - samples[..., 1]
        gain_SC += np.maximum(width, 0.0) * np.maximum(height, 0.0)
    mean: NDArray[np.float64] = gain_SC.mean(axis=0)
    return mean
