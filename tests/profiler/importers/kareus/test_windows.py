from pathlib import Path

import pytest

from energyopt.applier.kareus.configs import CommConfig
from energyopt.profiler.importers.kareus.logs import Log, Measured
from energyopt.profiler.importers.kareus.windows import Choice, choose, parse_window_ends
from energyopt.schemas.errors import EnergyoptError, ProfileError

NO_CHOICE = Choice(ends={})


def log(*configs: tuple[str | None, str | None, int]) -> Log:
    """One measurement of each (launch, end, block), on lines 1, 2, ..."""
    found = [
        Measured(
            line=line,
            sm_clock_mhz=1410,
            config=CommConfig(start=start, end=end, sms=line, block=block),
            time_s=1e-3,
            energy_j=0.2,
        )
        for line, (start, end, block) in enumerate(configs, start=1)
    ]
    return Log(path=Path("eval_results.jsonl"), measured=tuple(found))


def kept(found: Log) -> list[int]:
    return [one.line for one in found.measured]


def test_one_of_each_is_taken_as_it_is() -> None:
    chosen = choose("fwd_attn", log(("4", "8", 1024), (None, None, 1024), ("2", "8", 1024)), NO_CHOICE)
    assert (kept(chosen.log), chosen.end, chosen.block, chosen.left_out) == ([1, 2, 3], "8", 1024, 0)


def test_nothing_overlapped_has_no_end() -> None:
    chosen = choose("fwd_attn", log((None, None, 512)), NO_CHOICE)
    assert (chosen.end, chosen.block) == (None, 512)


def test_the_end_of_the_partition_is_an_end() -> None:
    assert choose("fwd_attn", log(("rope_0", None, 1024)), NO_CHOICE).end == "none"


SEVERAL = (("4", "8", 1024), ("4", "6", 1024), ("2", "8", 1024), (None, None, 1024))


def test_several_ends_need_a_choice() -> None:
    with pytest.raises(ProfileError) as caught:
        choose("fwd_attn", log(*SEVERAL), NO_CHOICE)
    assert str(caught.value) == (
        "eval_results.jsonl: fwd_attn has several window ends: 8 (2 lines, first 1), 6 (1 lines, first 2); a "
        "profile holds one, choose it with --window-end fwd_attn=8"
    )
    chosen = choose("fwd_attn", log(*SEVERAL), Choice(ends={"fwd_attn": "6"}))
    assert (kept(chosen.log), chosen.end, chosen.left_out) == ([2, 4], "6", 2)


def test_several_blocks_need_a_choice() -> None:
    found = log(("4", "8", 1024), ("4", "8", 512), (None, None, 512), (None, None, 1024))
    with pytest.raises(ProfileError, match=r"several block sizes: 1024 .*, 512 .*--block 1024"):
        choose("fwd_attn", found, NO_CHOICE)
    chosen = choose("fwd_attn", found, Choice(ends={}, block=512))
    assert (kept(chosen.log), chosen.block, chosen.left_out) == ([2, 3], 512, 2)


def test_a_choice_that_nothing_has() -> None:
    with pytest.raises(ProfileError, match=r"--block 256 fits nothing; fwd_attn has the block sizes 1024 "):
        choose("fwd_attn", log(*SEVERAL), Choice(ends={}, block=256))
    with pytest.raises(ProfileError, match=r"--window-end fwd_attn=9 fits nothing; .* window ends 8 .*, 6 "):
        choose("fwd_attn", log(*SEVERAL), Choice(ends={"fwd_attn": "9"}))
    with pytest.raises(ProfileError, match=r"--window-end fwd_attn=9 fits nothing; .* window ends none"):
        choose("fwd_attn", log((None, None, 1024)), Choice(ends={"fwd_attn": "9"}))


def test_choices_as_text() -> None:
    assert parse_window_ends(["a=8", " b = none "], ["a", "b"]) == {"a": "8", "b": "none"}


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (["8"], "--window-end '8' is not PARTITION=END"),
        (["a="], "--window-end 'a=' is not PARTITION=END"),
        (["c=8"], "--window-end has no partition 'c'; this job has a, b"),
        (["a=8", "a=6"], "--window-end gives a twice: 8 and '6'"),
    ],
)
def test_choices_that_are_none(settings: list[str], complaint: str) -> None:
    with pytest.raises(EnergyoptError) as caught:
        parse_window_ends(settings, ["a", "b"])
    assert complaint in str(caught.value)
