"""frontier.parquet: what is written comes back, equal content gives equal bytes, damage is named."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.frontier import Frontier, read_frontier, write_frontier
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.partitions import Execution, PartitionConfig

Damage = Callable[[dict[str, Any], dict[str, Any]], None]


@pytest.fixture
def written(tmp_path: Path, small_frontier: Frontier) -> Path:
    file = tmp_path / "frontier.parquet"
    write_frontier(file, small_frontier)
    return file


def test_round_trip(written: Path, small_frontier: Frontier) -> None:
    assert read_frontier(written) == small_frontier


SAVED = {"saved_waiting_j": 1.5, "saved_clock_j": 200.0, "saved_overlap_j": -3.0, "saved_sm_share_j": 26.5}


def test_savings_and_what_plans_may_choose_are_kept(tmp_path: Path, small_frontier: Frontier) -> None:
    points = tuple(replace(point, **SAVED) for point in small_frontier.points)
    full = replace(small_frontier, points=points, only="clocks", thinning_error=0.001)
    write_frontier(tmp_path / "f.parquet", full)
    assert read_frontier(tmp_path / "f.parquet") == full


def test_what_plans_may_choose_is_one_of_two(tmp_path: Path, small_frontier: Frontier) -> None:
    write_frontier(tmp_path / "f.parquet", replace(small_frontier, only="clock"))
    with pytest.raises(FileFormatError, match=r"'clock' is none of clocks, overlap @ metadata\.only"):
        read_frontier(tmp_path / "f.parquet")


def test_files_from_before_there_were_savings_are_read(written: Path, small_frontier: Frontier) -> None:
    table = pq.read_table(written)
    assert set(SAVED) < set(table.column_names)
    pq.write_table(table.drop_columns(list(SAVED)), written)
    found = read_frontier(written)
    assert found == small_frontier
    assert {getattr(point, name) for point in found.points for name in SAVED} == {None}


def test_savings_may_be_unknown_but_not_without_number(written: Path) -> None:
    _rewrite(written, lambda _, columns: columns["saved_clock_j"].__setitem__(1, float("inf")))
    with pytest.raises(FileFormatError, match="column 'saved_clock_j' is inf in row 1"):
        read_frontier(written)


def test_peak_power_and_the_cap_on_it_are_kept(tmp_path: Path, small_frontier: Frontier) -> None:
    points = tuple(replace(point, peak_power_w=600.0) for point in small_frontier.points)
    full = replace(small_frontier, points=points, peak_power_cap_w=650.0, peak_lasts_s=0.01)
    write_frontier(tmp_path / "f.parquet", full)
    assert read_frontier(tmp_path / "f.parquet") == full


def test_files_from_before_there_was_peak_power_are_read(written: Path, small_frontier: Frontier) -> None:
    table = pq.read_table(written)
    header = json.loads(table.schema.metadata[b"energyopt"])
    assert not {"peak_power_cap_w", "peak_lasts_s"} & set(header)  # written where they say something
    pq.write_table(table.drop_columns(["peak_power_w"]), written)
    assert read_frontier(written) == small_frontier


def test_the_options_of_a_point(small_frontier: Frontier) -> None:
    """Point 0 slows F1 and B0 of stage 0."""
    clocks = [option.sm_clock_mhz for option in small_frontier.chosen_options(0)]
    assert clocks == [1400, 1000, 1000, 1400, 1400, 1400, 1400, 1400]


def test_options_that_overlap_are_kept(tmp_path: Path, small_frontier: Frontier) -> None:
    config = PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=8, comm_launch="rope")
    options = {
        key: (*(replace(one, nanobatches=2, partitions=(("mlp", config),)) for one in own),)
        for key, own in small_frontier.options.items()
    }
    frontier = replace(small_frontier, options=options)
    write_frontier(tmp_path / "f.parquet", frontier)
    assert read_frontier(tmp_path / "f.parquet") == frontier


def test_equal_frontiers_give_equal_bytes(written: Path, small_frontier: Frontier, tmp_path: Path) -> None:
    options = dict(reversed(small_frontier.options.items()))
    write_frontier(tmp_path / "again.parquet", replace(small_frontier, options=options))
    assert (tmp_path / "again.parquet").read_bytes() == written.read_bytes()


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ((), "a frontier without points"),
        ((0, 0), "row 1 takes no more time than the row before it"),
        ((1, 0), "row 1 takes no more time than the row before it"),
        ((0, 2, 1), "row 2 takes no more time than the row before it"),
    ],
)
def test_points_that_are_no_frontier(
    tmp_path: Path, small_frontier: Frontier, order: tuple[int, ...], words: str
) -> None:
    points = tuple(small_frontier.points[index] for index in order)
    write_frontier(tmp_path / "f.parquet", replace(small_frontier, points=points))
    with pytest.raises(FileFormatError, match=words):
        read_frontier(tmp_path / "f.parquet")


@pytest.mark.parametrize(
    ("energy_j", "words"),
    [(3975.0, "row 1 costs no less energy"), (0.0, "'energy_j' is not positive in row 1")],
)
def test_a_slower_point_costs_less_and_more_than_nothing(
    tmp_path: Path, small_frontier: Frontier, energy_j: float, words: str
) -> None:
    first, second, last = small_frontier.points
    points = (first, replace(second, energy_j=energy_j), last)
    write_frontier(tmp_path / "f.parquet", replace(small_frontier, points=points))
    with pytest.raises(FileFormatError, match=words):
        read_frontier(tmp_path / "f.parquet")


def test_best_single_clock(small_frontier: Frontier) -> None:
    best = small_frontier.best_single_clock(11.25)
    assert best is not None and best.sm_clock_mhz == 1000
    best = small_frontier.best_single_clock(11.2)
    assert best is not None and best.sm_clock_mhz == 1400
    assert small_frontier.best_single_clock(8.9) is None


def test_columns_of_later_tools_are_ignored(written: Path, small_frontier: Frontier) -> None:
    table = pq.read_table(written)
    pq.write_table(table.append_column("carbon_g", pa.array([1.0, 2.0, 3.0])), written)
    assert read_frontier(written) == small_frontier


def _rewrite(file: Path, damage: Damage) -> None:
    table = pq.read_table(file)
    header, columns = json.loads(table.schema.metadata[b"energyopt"]), table.to_pydict()
    damage(header, columns)
    types = {field.name: field.type for field in table.schema}
    arrays = {name: pa.array(values, types[name]) for name, values in columns.items()}
    pq.write_table(pa.table(arrays).replace_schema_metadata({"energyopt": json.dumps(header)}), file)


DAMAGES: dict[str, tuple[Damage, str]] = {
    "format": (lambda h, _: h.update(format="energyopt-plan"), "a file of format 'energyopt-plan'"),
    "version": (lambda h, _: h.update(schema_version=99), "upgrade energyopt"),
    "no wait power": (
        lambda h, _: h["device"].pop("wait_power_w"),
        "missing field @ metadata.device.wait_power_w",
    ),
    "gpus": (lambda h, _: h.update(gpus=0), "expected at least 1, found 0 @ metadata.gpus"),
    "kind": (lambda h, _: h["options"][0].update(op="sideways"), "'sideways' is none of"),
    "lengths": (lambda h, _: h["options"][0]["time_s"].pop(), "differ in length"),
    "no options": (lambda h, _: h["options"].pop(0), "no options for the backward of stage 0"),
    "twice": (lambda h, _: h["options"].append(h["options"][0]), "two entries for one stage, chunk and op"),
    "notation": (
        lambda h, _: h["schedule"]["orders"].__setitem__(0, "0F0 1X1"),
        "stage 0: '1X1' is no operation",
    ),
    "orders": (lambda h, _: h["schedule"]["orders"].pop(), "1 stages, but virtual_stages has 2"),
    "placement": (lambda h, _: h["schedule"]["virtual_stages"].pop(), "more stages than virtual_stages has"),
    "column": (lambda _, c: c.pop("gap"), "column 'gap' is missing"),
    "null": (lambda _, c: c["energy_j"].__setitem__(1, None), "column 'energy_j' is null in row 1"),
    "no choices": (lambda _, c: c["choices"].__setitem__(2, None), "column 'choices' is null in row 2"),
    "null choice": (lambda _, c: c["choices"][0].__setitem__(3, None), "column 'choices' is null in row 0"),
    "nan": (lambda _, c: c["energy_j"].__setitem__(0, float("nan")), "column 'energy_j' is nan in row 0"),
    "no time": (lambda _, c: c["iteration_time_s"].__setitem__(0, 0.0), "is not positive in row 0"),
    "few choices": (lambda _, c: c["choices"][1].pop(), "row 1 chooses for 7 of 8 operations"),
    "choice": (lambda _, c: c["choices"][1].__setitem__(4, 2), "row 1 chooses option 2 of 2 @ choices[4]"),
    "negative": (
        lambda _, c: c["choices"][1].__setitem__(4, -1),
        "row 1 chooses option -1 of 2 @ choices[4]",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_with_the_file(written: Path, name: str) -> None:
    damage, words = DAMAGES[name]
    _rewrite(written, damage)
    with pytest.raises(FileFormatError) as refused:
        read_frontier(written)
    assert words in str(refused.value)
    assert str(written) in str(refused.value)


def test_a_column_of_another_type_is_refused(written: Path) -> None:
    table = pq.read_table(written)
    index = table.schema.get_field_index("energy_j")
    pq.write_table(table.set_column(index, "energy_j", table["energy_j"].cast(pa.string())), written)
    with pytest.raises(FileFormatError, match="column 'energy_j' is missing or not double"):
        read_frontier(written)


def test_a_file_that_is_cut_short_is_refused(written: Path) -> None:
    content = written.read_bytes()
    for length in (0, 3, len(content) // 2, len(content) - 1):
        written.write_bytes(content[:length])
        with pytest.raises(FileFormatError):
            read_frontier(written)


def test_options_of_keys_that_no_operation_uses_are_kept(tmp_path: Path, small_frontier: Frontier) -> None:
    options = small_frontier.options | {
        OpKey(0, 0, OpKind.OPTIMIZER): small_frontier.options[OpKey(0, 0, OpKind.FORWARD)]
    }
    frontier = replace(small_frontier, options=options)
    write_frontier(tmp_path / "f.parquet", frontier)
    assert read_frontier(tmp_path / "f.parquet") == frontier
