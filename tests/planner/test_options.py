"""Options, fronts and hulls; expected ones follow from the definitions, tested pair by pair."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyopt.planner.hulls import lower_hull
from energyopt.planner.options import draws_less_than_waiting, measured_options, pareto_front
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.options import Option
from energyopt.schemas.profile import Level, Profile, ProfileRow

F, B = OpKind.FORWARD, OpKind.BACKWARD


def _option(clock: int, time_s: float, energy_j: float) -> Option:
    return Option(sm_clock_mhz=clock, time_s=time_s, energy_j=energy_j)


# Whole numbers, so that effective energies are exact and ties are frequent.
_options = st.lists(
    st.builds(_option, st.integers(1, 40), st.integers(1, 6), st.integers(1, 30)),
    min_size=1,
    max_size=12,
    unique_by=lambda one: one.sm_clock_mhz,
)


def _beats(one: Option, other: Option, wait_w: float) -> bool:
    """In both time and effective energy at least as good, and better in one, or else of lower clock."""
    cost = (one.time_s, one.energy_j - wait_w * one.time_s)
    other_cost = (other.time_s, other.energy_j - wait_w * other.time_s)
    if cost == other_cost:
        return one.sm_clock_mhz < other.sm_clock_mhz
    return cost[0] <= other_cost[0] and cost[1] <= other_cost[1]


@given(_options, st.integers(0, 5))
def test_a_front_is_what_nothing_beats(options: list[Option], wait_w: int) -> None:
    expected = {one for one in options if not any(_beats(other, one, wait_w) for other in options)}
    front = pareto_front(options, wait_w)
    assert set(front) == expected
    assert list(front) == sorted(front, key=lambda one: one.time_s)


@given(_options, st.randoms())
def test_the_order_of_rows_does_not_matter(options: list[Option], chance: object) -> None:
    shuffled = list(options)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert pareto_front(shuffled, 2.0) == pareto_front(options, 2.0)


@given(_options)
def test_a_hull_is_what_lies_below_every_chord(options: list[Option]) -> None:
    front = pareto_front(options, 0.0)
    time_s, energy_j = [one.time_s for one in front], [one.energy_j for one in front]

    def lies_below(middle: int) -> bool:
        return all(
            (energy_j[middle] - energy_j[left]) * (time_s[right] - time_s[left])
            < (energy_j[right] - energy_j[left]) * (time_s[middle] - time_s[left])
            for left in range(middle)
            for right in range(middle + 1, len(front))
        )

    assert lower_hull(time_s, energy_j).tolist() == [i for i in range(len(front)) if lies_below(i)]


@pytest.mark.parametrize(
    ("options", "clocks"),
    [
        pytest.param([(1400, 1.0, 300.0)], [1400], id="one option"),
        pytest.param([(1400, 1.0, 300.0), (1000, 2.0, 250.0)], [1400, 1000], id="two options"),
        pytest.param([(1400, 1.0, 300.0), (1000, 2.0, 400.0)], [1400], id="slower and dearer"),
        pytest.param([(1400, 1.0, 300.0), (1000, 1.0, 250.0)], [1000], id="equal time keeps the cheaper"),
        pytest.param([(1400, 1.0, 300.0), (1000, 2.0, 300.0)], [1400], id="equal energy keeps the faster"),
        pytest.param([(1400, 1.0, 300.0), (1000, 1.0, 300.0)], [1000], id="full tie keeps the lower clock"),
        pytest.param(
            [(1400, 1.1, 300.0), (1385, 1.0, 290.0)], [1385], id="lower clock both faster and cheaper"
        ),
        pytest.param(
            [(1400, 1.0, 300.0), (1200, 2.0, 290.0), (1000, 3.0, 100.0)], [1400, 1200, 1000], id="not convex"
        ),
    ],
)
def test_small_fronts(options: list[tuple[int, float, float]], clocks: list[int]) -> None:
    front = pareto_front([_option(*one) for one in options], 0.0)
    assert [one.sm_clock_mhz for one in front] == clocks


def test_waiting_costs_too() -> None:
    """300 J in 1 s and 350 J in 2 s: at 100 W of wait power 200 J and 150 J beyond waiting."""
    options = [_option(1400, 1.0, 300.0), _option(1000, 2.0, 350.0)]
    assert len(pareto_front(options, 0.0)) == 1
    assert len(pareto_front(options, 100.0)) == 2


def test_a_point_on_the_chord_is_no_vertex() -> None:
    assert lower_hull([1.0, 2.0, 3.0], [300.0, 200.0, 100.0]).tolist() == [0, 2]


def test_rows_without_a_stage_or_chunk_serve_all_that_have_none(make_profile: Callable[..., Profile]) -> None:
    profile = make_profile(
        [
            (None, None, F, 1400, 1.0, 100.0),
            (None, 1, F, 1400, 2.0, 100.0),
            (1, None, F, 1400, 3.0, 100.0),
            (1, 1, F, 1400, 4.0, 100.0),
        ]
    )
    keys = [OpKey(stage, chunk, F) for stage in (0, 1) for chunk in (0, 1)]
    table = measured_options(profile, keys)
    assert [table[key][0].time_s for key in keys] == [1.0, 2.0, 3.0, 4.0]


def test_invalid_rows_and_other_levels_are_ignored(small_profile: Profile) -> None:
    """1200 MHz is there, marked as not held; a kernel's row is no operation."""
    kernel = ProfileRow(
        level=Level.KERNEL,
        stage=None,
        chunk=None,
        op=F,
        sm_clock_mhz=900,
        time_s=1.0,
        energy_j=1.0,
        energy_source=small_profile.rows[0].energy_source,
    )
    profile = Profile(metadata=small_profile.metadata, rows=(*small_profile.rows, kernel))
    options = measured_options(profile, [OpKey(0, 0, F)])[OpKey(0, 0, F)]
    assert [one.sm_clock_mhz for one in options] == [1000, 1400]


def test_counts_multiply() -> None:
    profile_row = ProfileRow(
        level=Level.OP, stage=0, chunk=0, op=F, count=3, sm_clock_mhz=900, time_s=2.0, energy_j=5.0,
        energy_source="model",  # type: ignore[arg-type]
    )  # fmt: skip
    options = measured_options(Profile(metadata=None, rows=(profile_row,)), [OpKey(0, 0, F)])  # type: ignore[arg-type]
    assert options[OpKey(0, 0, F)] == (_option(900, 6.0, 15.0),)


def test_a_missing_key_is_named(small_profile: Profile) -> None:
    with pytest.raises(
        ProfileError, match="no usable row for backward_input of stage 3; it has rows of backward, forw"
    ):
        measured_options(small_profile, [OpKey(3, 0, OpKind.BACKWARD_INPUT)])


def test_two_rows_for_one_clock_are_refused(make_profile: Callable[..., Profile]) -> None:
    profile = make_profile([(0, 0, B, 1400, 1.0, 100.0), (0, 0, B, 1400, 1.1, 100.0)])
    with pytest.raises(ProfileError, match="two rows for backward of stage 0 at 1400 MHz"):
        measured_options(profile, [OpKey(0, 0, B)])


def test_the_stages_and_chunks_of_a_kind_are_listed(make_profile: Callable[..., Profile]) -> None:
    places = [(None, 2), (0, 0), (1, None)]
    profile = make_profile(
        [(*place, F, 1400, 1.0, 100.0) for place in places] + [(0, 1, B, 1400, 1.0, 100.0)]
    )
    listed = "it has forward of every stage, chunk 2; stage 0, chunk 0; stage 1, every chunk: every stage and chunk"
    with pytest.raises(ProfileError, match=f"no usable row for forward of stage 0, chunk 1; {listed}"):
        measured_options(profile, [OpKey(0, 1, F)])
    many = make_profile([(stage, 0, F, 1400, 1.0, 100.0) for stage in range(11)])
    with pytest.raises(ProfileError, match="stage 7, chunk 0; and 3 more: every stage"):
        measured_options(many, [OpKey(11, 0, F)])


@pytest.mark.parametrize("kind", [OpKind.BACKWARD_INPUT, OpKind.BACKWARD_WEIGHT])
def test_split_rows_are_asked_for(small_profile: Profile, kind: OpKind) -> None:
    hint = "zero-bubble schedules need rows of backward_input and backward_weight .profile --split-backward.$"
    with pytest.raises(ProfileError, match=hint):
        measured_options(small_profile, [OpKey(0, 0, kind)])


def test_rows_below_the_wait_power_are_named_for_where_they_serve(
    make_profile: Callable[..., Profile],
) -> None:
    """At 80 W: 79 J in 1 s is less, 80 J is not; a row without a stage serves every stage."""
    places = [(1, 1), (0, None), (0, 0), (None, 1), (None, None)]
    profile = make_profile([(*place, F, 1400, 1.0, 79.0) for place in places] + [(0, 0, B, 1400, 1.0, 80.0)])
    assert draws_less_than_waiting(profile) == [
        "forward of every stage",
        "forward of every stage, chunk 1",
        "forward of stage 0",
        "forward of stage 1, chunk 1",
    ]
