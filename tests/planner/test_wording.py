"""How numbers and foreign text are written."""

import pytest

from energyopt.planner.tables import Table, plain
from energyopt.planner.wording import change, gpus, number, one_line, percent, percent_change, relative


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (number(7339.04, "J"), "7339.0"),
        (number(1234567.89, "J"), "1234567.9"),
        (number(2.83654, "s"), "2.8365"),
        (number(-0.04, "J"), "0.0"),
        (number(None, "J"), "-"),
        (change(12.34, "J"), "+12.3"),
        (change(-12.34, "J"), "-12.3"),
        (change(0.0, "J"), "+0.0"),
        (change(0.003, "J"), "+0.003"),
        (percent(0.00184), "0.18 %"),
        (percent_change(0.0163), "+1.63 %"),
        (percent_change(-0.1), "-10.00 %"),
        (percent_change(-1e-6), "-0.0001 %"),
        (percent_change(None), "-"),
        (gpus(1), "1 GPU"),
        (gpus(64), "64 GPUs"),
    ],
)
def test_numbers(found: str, expected: str) -> None:
    assert found == expected


def test_relative_to_nothing_is_nothing() -> None:
    assert relative(1.0, 0.0) is None
    assert relative(None, 1.0) is None
    assert relative(-90.0, -100.0) == pytest.approx(0.1)


def test_foreign_text_stays_on_one_line() -> None:
    assert one_line("a\nb\x1b[31m|\u00e9[b]") == r"a\nb\x1b[31m|" + "\u00e9[b]"


def test_a_plain_table_is_aligned() -> None:
    table = Table(title="t", columns=("name", "J"), rows=(("a", "1.0"), ("longer", "100.0")))
    assert plain(table) == "t\nname        J\na         1.0\nlonger  100.0"
