"""What to measure next: what was seen of all partitions, one model of them, and where fronts would move most."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from energyopt.profiler.search.acquisition import expected_gain, normal_draws
from energyopt.profiler.search.front import hypervolume, planes, seen_reference
from energyopt.profiler.search.initial import first_points
from energyopt.profiler.search.space import Cost, Space
from energyopt.profiler.search.surrogate import NOISE, Surrogate

SHORTLIST = 256
"""Candidates of each partition among which a turn's points are chosen."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A point worth measuring.

    space: index of its partition.
    gain: what it is expected to add to its partition's hypervolumes, relative, summed over both planes; None where
        it is measured whatever it adds.
    """

    space: int
    point: int
    gain: float | None = None


class Search:
    """All that is known of some partitions, which share a model.

    Deterministic: what is proposed depends on the seed, the turn and the observations alone.

    best_gain: what any point was expected to gain at most when points were last proposed.
    """

    def __init__(self, spaces: Sequence[Space], wait_power_w: float, seed: int) -> None:
        self.spaces = tuple(spaces)
        self.best_gain = 0.0
        self._wait_power_w = wait_power_w
        self._seed = seed
        self._seen: list[dict[int, Cost | None]] = [{} for _ in spaces]
        self._coordinates = [space.coordinates() for space in spaces]

    @property
    def measured(self) -> int:
        """Points that were measured, of all partitions."""
        return sum(map(len, self._seen))

    @property
    def points(self) -> int:
        """Points that there are."""
        return sum(map(len, self.spaces))

    def observe(self, space: int, point: int, cost: Cost | None) -> None:
        """Take note of a measurement; None where it gave no usable number, which is not tried again."""
        self._seen[space][point] = cost

    def first(self) -> list[Proposal]:
        """Sequential execution at every clock, and a few overlapped points of each partition."""
        return [
            Proposal(number, point)
            for number, space in enumerate(self.spaces)
            for point in (*space.sequential, *first_points(space, self._seed))
        ]

    def propose(self, turn: int, count: int) -> list[Proposal]:
        """The points to measure next; fewer where no more are left.

        Each goes to the partition of which the model expects most to be still found, and is the one expected to
        gain most there. Later ones take the earlier for measured, with the outcome that the model expects.
        """
        sides = self._sides(turn)
        self.best_gain = max((side.best_gain for side in sides), default=0.0)
        found: list[Proposal] = []
        while len(found) < count and sides:
            side = max(sides, key=lambda one: (one.open_gain, one.best_gain))
            gain = side.best_gain
            found.append(Proposal(side.space, side.take(), gain))
            sides = [side for side in sides if side.left]
        return found

    def _sides(self, turn: int) -> list["_Side"]:
        known = [number for number in range(len(self.spaces)) if self._baseline(number) is not None]
        rows, values = self._training(known)
        if not len(rows):
            return []
        model = Surrogate(rows, values, self._seed)
        draws = normal_draws(1000 * self._seed + turn)
        sides = [self._side(number, model, draws) for number in known]
        return [side for side in sides if side.left]

    def _training(self, known: Sequence[int]) -> tuple[Array, Array]:
        """What overlapped points cost relative to sequential ones at their clocks, and where they lie."""
        rows, values = [np.empty((0, self._coordinates[0].shape[1] + 1))], [np.empty((0, 2))]
        for number in known:
            points = self._overlapped(number)
            rows.append(self._rows(number, points))
            values.append(np.log(self._costs(number, points)) - self._log_baseline(number, points))
        return np.concatenate(rows), np.concatenate(values)

    def _side(self, number: int, model: Surrogate, draws: Array) -> "_Side":
        """One partition's candidates, with what the model expects of them."""
        space, seen = self.spaces[number], self._overlapped(number)
        left = np.array([one for one in range(len(space)) if one not in self._seen[number]], dtype=int)
        smooth_log = model.predict(self._rows(number, seen))[0] if seen else np.empty((0, 2))
        smooth = np.exp(smooth_log + self._log_baseline(number, seen))
        sequential = [one for one in space.sequential if self._seen[number].get(one) is not None]
        known = np.concatenate((self._costs(number, sequential), smooth))
        side = _Side(number, left, known, draws, self._wait_power_w)
        if len(left):
            mean, variance = model.predict(self._rows(number, left))
            side.shorten(mean + self._log_baseline(number, left), variance)
            side.covariance = model.covariance(self._rows(number, side.candidates))
        return side

    def _overlapped(self, number: int) -> list[int]:
        first = len(self.spaces[number].sequential)
        return sorted(one for one, cost in self._seen[number].items() if one >= first and cost is not None)

    def _rows(self, number: int, points: Sequence[int] | NDArray[np.int_]) -> Array:
        where = self._coordinates[number][np.asarray(points, dtype=int)]
        return np.column_stack((where, np.full(len(where), float(number))))

    def _costs(self, number: int, points: Sequence[int]) -> Array:
        costs = [self._seen[number][one] for one in points]
        return np.array([(cost.time_s, cost.energy_j) for cost in costs if cost]).reshape(-1, 2)

    def _baseline(self, number: int) -> Array | None:
        """Logarithms of time and energy of sequential execution at each clock, clocks x 2; None where unknown.

        A clock that gave no number gets what its neighbours say.
        """
        space = self.spaces[number]
        seen = [one for one in space.sequential if self._seen[number].get(one) is not None]
        if not seen:
            return None
        clocks, costs = np.log(space.clocks_mhz), np.log(self._costs(number, seen))
        rising = np.argsort(clocks[seen])
        columns = [np.interp(clocks, clocks[seen][rising], costs[rising, one]) for one in range(2)]
        return np.stack(columns, axis=1)

    def _log_baseline(self, number: int, points: Sequence[int] | NDArray[np.int_]) -> Array:
        baseline = self._baseline(number)
        assert baseline is not None
        chosen: Array = baseline[np.asarray(points, dtype=int) % len(self.spaces[number].clocks_mhz)]
        return chosen


class _Side:
    """One partition's candidates in one turn.

    known: time and energy of what was measured, as the model smooths it.
    covariance: of the candidates' outputs, 2 x M x M.
    """

    def __init__(
        self, space: int, candidates: NDArray[np.int_], known: Array, draws: Array, wait_w: float
    ) -> None:
        self.space, self.candidates = space, candidates
        self.covariance: Array = np.empty((2, 0, 0))
        self._known, self._draws, self._wait_w = known, draws, wait_w
        self._mean = self._variance = self._gains = np.empty((0, 2))

    @property
    def left(self) -> int:
        """How many candidates are left."""
        return len(self.candidates)

    @property
    def best_gain(self) -> float:
        """What the best of them is expected to gain."""
        return float(self._gains.max())

    @property
    def open_gain(self) -> float:
        """What all of them together would add if each came out as expected, relative, summed over both planes."""
        expected = np.concatenate((self._known, np.exp(self._mean)))
        total = 0.0
        for seen, all_seen in zip(self._planes(self._known), self._planes(expected), strict=True):
            reference = seen_reference(seen)
            total += hypervolume(all_seen, reference) / hypervolume(seen, reference) - 1
        return total

    def shorten(self, mean: Array, variance: Array) -> None:
        """Keep those that are worth looking at, with the logarithms of what they may cost."""
        self._mean, self._variance = mean, variance
        self._gains = self._expected()
        self._keep(np.sort(np.argsort(-self._gains, kind="stable")[:SHORTLIST]))

    def take(self) -> int:
        """The best candidate, which then counts as measured, with the outcome that is expected."""
        best = int(np.argmax(self._gains))
        point = int(self.candidates[best])
        self._known = np.concatenate((self._known, np.exp(self._mean[best : best + 1])))
        column = self.covariance[:, :, best]
        told = np.einsum("om,on->omn", column, column)
        self.covariance = self.covariance - told / (column[:, best] + NOISE**2)[:, None, None]
        rest = np.delete(np.arange(len(self.candidates)), best)
        self.covariance = self.covariance[:, rest][:, :, rest]
        self._keep(rest)
        self._variance = np.maximum(np.diagonal(self.covariance, axis1=1, axis2=2).T, 0.0)
        self._gains = self._expected() if len(rest) else np.empty(0)
        return point

    def _keep(self, chosen: NDArray[np.int_]) -> None:
        self.candidates, self._gains = self.candidates[chosen], self._gains[chosen]
        self._mean, self._variance = self._mean[chosen], self._variance[chosen]

    def _planes(self, costs: Array) -> list[Array]:
        return planes(costs[..., 0], costs[..., 1], self._wait_w)

    def _expected(self) -> Array:
        """Relative gains of all candidates, summed over both planes."""
        spread = np.sqrt(self._variance)
        samples = np.exp(self._mean + self._draws[:, None, :] * spread)
        seen, drawn = self._planes(self._known), self._planes(samples)
        total = np.zeros(len(self._mean))
        for values, candidates in zip(seen, drawn, strict=True):
            reference = seen_reference(values)
            total += expected_gain(candidates, values, reference) / hypervolume(values, reference)
        return total
