"""Points and where they lie."""

from collections.abc import Callable

import numpy as np
import pytest

from energyopt.profiler.search.initial import FIRST, first_points
from energyopt.profiler.search.space import COORDINATES, OWN_SMS, Space
from energyopt.schemas.partitions import PLAIN, Execution, PartitionConfig

MakeSpace = Callable[..., Space]
CLOCK, SMS, LAUNCH, OWN, SHARE, LASTING = range(COORDINATES)


def _overlapped(sms: int | None, launch: str) -> PartitionConfig:
    return PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=sms, comm_launch=launch)


def test_every_point_has_its_configuration_and_clock(make_space: MakeSpace) -> None:
    space = make_space(sms=(4, 8), clocks=(1400, 1200, 1000))
    assert len(space) == 3 * (1 + 3 * 3)
    places = [(space.config(one), space.clock_mhz(one)) for one in range(len(space))]
    assert len(set(places)) == len(space)
    assert [space.point(*place) for place in places] == list(range(len(space)))
    assert [places[one] for one in space.sequential] == [(PLAIN, clock) for clock in (1400, 1200, 1000)]


def test_coordinates_say_what_differs(make_space: MakeSpace) -> None:
    space = make_space(sms=(4, OWN_SMS), clocks=(1400, 1000))
    where = space.coordinates()
    assert where.shape == (len(space), COORDINATES)

    def at(sms: int | None, launch: str, clock: int = 1400) -> np.ndarray:
        return where[space.point(_overlapped(sms, launch), clock)]

    assert at(4, "first", 1000)[CLOCK] < at(4, "first")[CLOCK] == 0
    assert at(4, "first")[SMS] < at(OWN_SMS, "first")[SMS] == at(None, "first")[SMS]
    assert at(None, "first")[OWN] > at(OWN_SMS, "first")[OWN] == 0
    assert [at(4, launch)[LAUNCH] for launch in ("first", "second", "third")] == [0.0, 0.1, 0.6]
    assert at(4, "first")[SHARE] == pytest.approx(np.log(0.3 / 0.7))


def test_what_lasts_longer_has_its_own_coordinate(make_space: MakeSpace) -> None:
    """0 where communication takes as long as the compute kernels that are left at its launch."""
    even = make_space(sms=(6, OWN_SMS, 96), clocks=(1400,), share=0.5)
    lasting = even.coordinates()[:, LASTING]
    first = {sms: lasting[even.point(_overlapped(sms, "first"), 1400)] for sms in (6, OWN_SMS, 96)}
    assert first[OWN_SMS] == pytest.approx(0)
    assert first[6] == pytest.approx(-first[96]) and first[6] > 0
    assert lasting[even.point(_overlapped(OWN_SMS, "third"), 1400)] > 0


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_of_nothing_or_all_is_a_number_too(make_space: MakeSpace, share: float) -> None:
    assert np.isfinite(make_space(share=share).coordinates()).all()


def test_the_first_points(make_space: MakeSpace) -> None:
    space = make_space()
    points = first_points(space, 0)
    assert points == first_points(space, 0)
    assert len(set(points)) == FIRST
    assert min(points) >= len(space.sequential)
    slowest = space.point(_overlapped(2, "third"), space.clocks_mhz[-1])
    assert points[0] == slowest
    assert len({space.clock_mhz(one) for one in points}) > 1
    assert set(points[1:]) != set(first_points(space, 1)[1:])
    assert set(points[1:]) != set(first_points(make_space("another"), 0)[1:])


def test_small_spaces_have_fewer_first_points(make_space: MakeSpace) -> None:
    space = make_space(sms=(), clocks=(1400,))
    assert sorted(first_points(space, 0)) == [1, 2, 3]
    alone = Space(name="x", clocks_mhz=(1400,), configs=(PLAIN,), launch_at={}, comm_share=(0.5,))
    assert first_points(alone, 0) == []
