from energyopt.planner.tables import Table, panels, plain

TABLE = Table(
    title="numbers",
    columns=("name", "first", "second", "third"),
    rows=(("a", "1.5", "22222.5", "3"), ("long name", "2", "1", "333333.25")),
)


def test_a_wide_terminal_shows_one_table() -> None:
    assert panels(TABLE, 200) == (TABLE,)


def test_a_narrow_one_shows_the_rest_below_with_the_names_and_whole_numbers() -> None:
    """Widths are 9, 5, 7 and 9, with two blanks between: 9 + 7 + 9 = 25 fit into 26 columns, 36 do not."""
    first, second = panels(TABLE, 26)
    assert first.columns == ("name", "first", "second")
    assert second.columns == ("name", "third")
    assert second.title == "numbers (continued)"
    assert all(len(line) <= 26 for line in plain(first).splitlines())
    assert [row[1] for row in second.rows] == ["3", "333333.25"]


def test_a_column_that_is_wider_than_the_terminal_stands_alone() -> None:
    assert [panel.columns for panel in panels(TABLE, 5)] == [("name", one) for one in TABLE.columns[1:]]
