"""What a hook costs the training thread."""

import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

import pytest

from energyopt.schemas.plan import Plan

MICROBATCHES = 16


def _costs_ns(session: Any) -> list[int]:
    """Of each operation of an iteration, begin and end together."""
    found = []
    for microbatch in range(MICROBATCHES):
        for kind in ("forward", "backward"):
            begun_ns = time.perf_counter_ns()
            session.begin(kind, microbatch)
            session.end()
            found.append(time.perf_counter_ns() - begun_ns)
    return found


@pytest.mark.parametrize("every", [0, 1])
def test_what_a_hook_costs(make_rig: Callable[..., Any], make_plan: Callable[..., Plan], every: int) -> None:
    """At most 5 microseconds in the median and 50 at the 99th percentile, recorded or not.

    What a call does is write a record; who reads it, and how long that one's driver takes, is nothing to it (see
    test_training_never_waits_for_the_driver). The best of five rounds counts: a machine may be busy.
    """
    rig = make_rig(plan=make_plan(microbatches=MICROBATCHES), every=every)
    rounds = []
    for _ in range(5):
        found = []
        for _ in range(200):
            rig.session.step()
            found += _costs_ns(rig.session)
        rounds.append((median(found), quantiles(found, n=100)[98]))
        if rounds[-1][0] <= 5_000 and rounds[-1][1] <= 50_000:
            break
    else:
        pytest.fail(f"median and 99th percentile, ns: {rounds}")
    assert rig.reports.said == ()
