"""The expected improvement, by its definition and against BoTorch's own estimate."""

import warnings

import numpy as np
import pytest

from energyopt.profiler.search.acquisition import expected_gain, normal_draws
from energyopt.profiler.search.front import hypervolume

RANDOM = np.random.default_rng(3)
SEEN = RANDOM.random((9, 2))
REFERENCE = np.array([0.9, 0.95])
MEAN = RANDOM.random((6, 2))


def test_it_is_the_mean_of_what_draws_would_add() -> None:
    samples = MEAN + 0.2 * RANDOM.standard_normal((50, 6, 2))
    before = hypervolume(SEEN, REFERENCE)
    added = [
        np.mean([hypervolume(np.vstack((SEEN, draw[one])), REFERENCE) - before for draw in samples])
        for one in range(6)
    ]
    assert expected_gain(samples, SEEN, REFERENCE) == pytest.approx(added)


def test_where_nothing_was_seen_within_the_reference_point() -> None:
    samples = np.array([[[0.5, 0.5], [1.5, 0.5]]])
    assert expected_gain(samples, np.array([[2.0, 2.0]]), np.array([1.0, 1.0])).tolist() == [0.25, 0.0]


def test_draws_are_standard_normal_and_those_of_their_seed() -> None:
    draws = normal_draws(1, 1024)
    assert draws.mean(axis=0) == pytest.approx([0, 0], abs=0.01)
    assert draws.std(axis=0) == pytest.approx([1, 1], abs=0.02)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.02
    assert np.array_equal(draws, normal_draws(1, 1024))
    assert not np.array_equal(draws, normal_draws(2, 1024))


def test_botorch_finds_the_same() -> None:
    """On a model that knows means and variances; BoTorch maximises, so all is negated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        from botorch.acquisition.multi_objective.analytic import ExpectedHypervolumeImprovement
        from botorch.utils.multi_objective.box_decompositions import NondominatedPartitioning
        from botorch.utils.testing import MockModel, MockPosterior

        reference = torch.tensor(-REFERENCE)
        cells = NondominatedPartitioning(ref_point=reference, Y=torch.tensor(-SEEN))
        theirs = []
        for mean in MEAN:
            posterior = MockPosterior(
                mean=torch.tensor(-mean)[None], variance=torch.full((1, 2), 0.04, dtype=torch.float64)
            )
            model = MockModel(posterior)
            theirs.append(
                ExpectedHypervolumeImprovement(model, ref_point=reference, partitioning=cells)(
                    torch.zeros(1, 1, 2, dtype=torch.float64)
                ).item()
            )
    samples = MEAN + 0.2 * normal_draws(0, 8192)[:, None]
    assert expected_gain(samples, SEEN, REFERENCE) == pytest.approx(theirs, rel=0.01, abs=1e-4)
