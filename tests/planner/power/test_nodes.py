"""Nodes against the same GPUs counted one by one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.planner.frontier import plan_frontier
from energyopt.planner.power.nodes import node_powers
from energyopt.planner.power.over_time import Loads, loads_of_point
from energyopt.planner.solve import Effort
from energyopt.schemas.errors import RequestError


@pytest.fixture(scope="module")
def loads(random_job: Callable[..., Any]) -> Loads:
    """Of the fastest plan of a job of 3 stages."""
    frontier = plan_frontier(*random_job(5, stages=3, microbatches=3), effort=Effort.QUICK)
    return loads_of_point(frontier, 0)


@pytest.mark.parametrize("gpus_per_stage", [1, 2, 4, 5])
@pytest.mark.parametrize("gpus_per_node", [1, 2, 3, 4, 8, 100])
def test_nodes_are_their_gpus(loads: Loads, gpus_per_stage: int, gpus_per_node: int) -> None:
    stage_of_gpu = [stage for stage in range(3) for _ in range(gpus_per_stage)]
    expected = []
    for first in range(0, len(stage_of_gpu), gpus_per_node):
        own = stage_of_gpu[first : first + gpus_per_node]
        power = loads.of_gpus(np.bincount(own, minlength=3).astype(float))
        expected.append((len(own), tuple(sorted(set(own))), power.average_w, power.peak_w()))
    found = []
    for node in node_powers(loads, gpus_per_stage, gpus_per_node):
        assert node.first == len(found)
        found += [(node.gpus, node.stages, node.average_w, node.peak_w)] * (node.last - node.first + 1)
    assert [one[:2] for one in found] == [one[:2] for one in expected]
    np.testing.assert_allclose([one[2:] for one in found], [one[2:] for one in expected])
    total = loads.of_pipeline(gpus_per_stage)
    assert sum(one[2] for one in found) == pytest.approx(total.average_w)
    assert (
        max(one[3] for one in found)
        <= total.peak_w() * (1 + 1e-12)
        <= sum(one[3] for one in found) * (1 + 1e-9)
    )


def test_equal_neighbours_share_an_entry(loads: Loads) -> None:
    """16 GPUs in each of 3 stages: two whole nodes each."""
    found = node_powers(loads, 16, 8)
    assert [(node.first, node.last, node.stages) for node in found] == [
        (0, 1, (0,)),
        (2, 3, (1,)),
        (4, 5, (2,)),
    ]


def test_peaks_of_nodes_last(loads: Loads) -> None:
    (node,) = node_powers(loads, 1, 8, lasts_s=1e6)
    assert node.peak_w == pytest.approx(float(loads.of_pipeline(1).power_w.min()))


def test_a_node_has_gpus(loads: Loads) -> None:
    with pytest.raises(RequestError, match="--gpus-per-node needs a number of at least 1, not 0"):
        node_powers(loads, 1, 0)
