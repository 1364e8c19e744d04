from itertools import pairwise

import pytest

from energyopt.profiler.clocks import Clocks, choose_clocks
from energyopt.schemas.errors import RequestError

A100 = tuple(range(1410, 209, -15))  # nvidia-smi -q -d SUPPORTED_CLOCKS on an A100


def test_a_range_is_taken_from_the_top_down() -> None:
    assert choose_clocks("900:960:30", A100) == Clocks(chosen_mhz=(960, 930, 900))


def test_a_range_starts_at_its_upper_end_where_the_step_does_not_divide_it() -> None:
    assert choose_clocks("900:1000:60", ()).chosen_mhz == (1000, 940)


def test_a_list_may_come_in_any_order_and_repeat() -> None:
    assert choose_clocks("1200,1410,1200,900", A100).chosen_mhz == (1410, 1200, 900)


def test_clocks_between_two_steps_go_to_the_nearest_and_of_two_as_near_to_the_lower() -> None:
    found = choose_clocks("1402,1196", (1410, 1400, 1200, 1192))
    assert found == Clocks(chosen_mhz=(1400, 1192), snapped=((1402, 1400), (1196, 1192)))


def test_two_clocks_that_go_to_one_step_are_one_clock() -> None:
    assert choose_clocks("1201,1199", A100) == Clocks(
        chosen_mhz=(1200,), snapped=((1201, 1200), (1199, 1200))
    )


def test_a_clock_one_step_beyond_the_ends_is_snapped_and_further_ones_are_refused() -> None:
    assert choose_clocks("1425,195", A100).chosen_mhz == (1410, 210)
    for clock in (1426, 194):
        with pytest.raises(RequestError, match=f"{clock} MHz is no clock .* supports 210 to 1410 MHz"):
            choose_clocks(str(clock), A100)


def test_without_a_list_of_the_board_clocks_are_taken_as_they_are() -> None:
    assert choose_clocks("1001,1411", ()) == Clocks(chosen_mhz=(1411, 1001))


@pytest.mark.parametrize("text", ["all", None])
def test_all_and_the_default_need_to_know_what_the_board_supports(text: str | None) -> None:
    with pytest.raises(RequestError, match="does not say which clocks it supports"):
        choose_clocks(text, ())


def test_all_is_every_clock_highest_first() -> None:
    assert choose_clocks("all", A100[::-1]).chosen_mhz == A100


def test_the_default_is_18_clocks_from_the_highest_to_three_fifths_of_it() -> None:
    chosen = choose_clocks(None, A100).chosen_mhz
    assert len(chosen) == 18
    assert (chosen[0], chosen[-1]) == (1410, 855)  # 0.6 x 1410 = 846
    steps = {(high - low) // 15 for high, low in pairwise(chosen)}
    assert steps == {2, 3}  # 37 steps of 15 MHz into 17 parts


def test_the_default_takes_all_of_few_clocks() -> None:
    assert choose_clocks(None, (1000, 800, 500)).chosen_mhz == (1000, 800)


def test_current_sets_nothing_whatever_the_board_supports() -> None:
    assert choose_clocks("current", ()) == choose_clocks("current", A100) == Clocks(chosen_mhz=())


@pytest.mark.parametrize("text", ["", "fast", "900:1410", "1410.0", "-900", "900,", "0", "1410,0", "a\n1"])
def test_other_words_are_refused_with_the_forms(text: str) -> None:
    with pytest.raises(RequestError, match="is none of LOW:HIGH:STEP, a list such as 1410,1200, all and cur"):
        choose_clocks(text, ())


@pytest.mark.parametrize("text", ["1410:900:30", "900:1410:0", "0:1410:30"])
def test_empty_ranges_are_refused(text: str) -> None:
    with pytest.raises(RequestError, match=f"--clocks {text} is empty: give LOW:HIGH:STEP"):
        choose_clocks(text, A100)
