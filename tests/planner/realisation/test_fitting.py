"""Look-ups give what `searchsorted` gives, for times that hit options exactly and for options of any distance."""

import numpy as np
import pytest

from energyopt.planner.realisation.fitting import Fitting


def _fronts(seed: int, distance: float) -> np.ndarray:
    """Fronts of one to nine options, two of them `distance` apart; infinite beyond."""
    rng = np.random.default_rng(seed)
    table = np.full((6, 9), np.inf)
    for row in table:
        count = rng.integers(1, 10)
        row[:count] = np.sort(rng.uniform(0.01, 3.0, count))
        if count > 2:
            row[1:count] = np.sort(np.append(row[2:count], row[0] + distance))
    return table


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("distance", [1e-1, 1e-6, 1e-15])
def test_look_ups_are_a_search(seed: int, distance: float) -> None:
    table = _fronts(seed, distance)
    front_of = np.array([3, 0, 1, 1, 5, 2, 4])
    exact = table[np.isfinite(table)]
    random = np.random.default_rng(seed).uniform(-1.0, 5.0, 100)
    near = (exact, np.nextafter(exact, 0.0), np.nextafter(exact, 9.0))
    room_s = np.concatenate((*near, random, [0.0, -7.0, 1e9]))
    rooms_s = np.repeat(room_s[None, :], len(front_of), axis=0)
    fitting = Fitting(table, front_of)
    for ops in (slice(0, 7), slice(2, 5)):
        expected = [np.searchsorted(table[front], room_s, side="right") for front in front_of[ops]]
        found = fitting.places(rooms_s[ops], ops) - fitting.offset[ops]
        assert found.tolist() == np.array(expected).tolist()
