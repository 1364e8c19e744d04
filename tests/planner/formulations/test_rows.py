"""Matrices by rows are those that scipy makes of the same entries."""

import numpy as np
import pytest
import scipy.sparse as sp  # type: ignore[import-untyped]

from energyopt.planner.formulations.rows import Entries

ROWS, COLUMNS = 7, 5


def _entries(seed: int, count: int) -> Entries:
    rng = np.random.default_rng(seed)
    return Entries(
        row=rng.integers(0, ROWS - 1, count),  # the last row stays empty
        column=rng.integers(0, COLUMNS, count),
        value=rng.integers(-3, 4, count).astype(np.float64),
    )


def _scipy(one: Entries) -> sp.csr_array:
    return sp.csr_array((one.value, (one.row, one.column)), shape=(ROWS, COLUMNS))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [1, 4, 60])
def test_sums_of_matrices(seed: int, count: int) -> None:
    one, other = _entries(seed, count), _entries(seed + 100, count)
    found = (one + other.times(-2.0)).summed()
    expected = (_scipy(one) - 2.0 * _scipy(other)).tocsr()
    expected.sum_duplicates()
    expected.eliminate_zeros()
    assert found.starts(ROWS).tolist() == expected.indptr.tolist()
    assert found.column.tolist() == expected.indices.tolist()
    assert found.value.tolist() == expected.data.tolist()
