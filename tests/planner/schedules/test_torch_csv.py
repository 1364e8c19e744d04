from collections.abc import Callable
from pathlib import Path

import pytest

from energyopt.planner.graph import build_graph
from energyopt.planner.schedules import read_torch_csv
from energyopt.schemas.errors import FileFormatError, ScheduleError
from energyopt.schemas.ops import Schedule

Read = Callable[[str], Schedule]
LOOPED = ((0, 4), (1, 5), (2, 6), (3, 7))
V_SHAPE = ((0, 7), (1, 6), (2, 5), (3, 4))
PLACEMENTS = {
    "loopedbfs-4x2x8": LOOPED,
    "interleaved1f1b-4x2x8": LOOPED,
    "interleavedzb-4x2x8": LOOPED,
    "zbv-4x8": V_SHAPE,
    "dualpipev-4x8": V_SHAPE,
}


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Read a schedule from text; the file is called `s.csv`."""
    monkeypatch.chdir(tmp_path)

    def read_text(text: str) -> Schedule:
        Path("s.csv").write_bytes(text.encode())
        return read_torch_csv(Path("s.csv"))

    return read_text


@pytest.mark.parametrize("name", PLACEMENTS)
def test_communication_actions_change_nothing(orders, run, data: Path, name: str) -> None:
    plain, full = (read_torch_csv(data / f"{name}{suffix}.csv") for suffix in ("", "-comms"))
    assert plain.virtual_stages == full.virtual_stages == PLACEMENTS[name]
    assert plain.microbatches == full.microbatches == 8
    assert orders(plain) == orders(full)
    assert plain.name == f"csv:{name}.csv"
    assert build_graph(plain).n_ops == len(plain.ops)
    assert run(plain).iteration_time_s >= 8 * 2 * 3.0  # two chunks of a forward and a backward, 8 times


def test_operations_stand_where_pytorch_put_them(orders, data: Path) -> None:
    last = orders(read_torch_csv(data / "zbv-4x8.csv"))[3]
    assert last.startswith("3F0 4F0 3F1 4F1 3F2 4F2 3F3 4F3 4I0 4W0 3F4 3I0 ")


def test_order_that_pytorch_prints_for_1f1b_is_refused(data: Path) -> None:
    """PyTorch 2.13 runs 1F1B rightly but prints the last rank's forwards as 1 to 8 in place of 0 to 7."""
    schedule = read_torch_csv(data / "1f1b-4x8-printed.csv")
    with pytest.raises(ScheduleError, match="microbatch 8 on virtual stage 2, which forward of microbatch 8"):
        build_graph(schedule)


@pytest.mark.parametrize(
    "text",
    [
        "0F0,0B0\n1F0,1B0\n",
        "0F0,0B0\r\n1F0,1B0\r\n",
        "0F0,0B0\n1F0,1B0",
        "\ufeff0F0,0B0\n1F0,1B0\n",
        " 0F0 ,, 0B0,,\n,1F0,\t1B0 \n",
        '"0F0","0B0"\n1F0,1B0\n\n  \n,,\n',
        "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n1RECV_F0,1F0,1B0,1SEND_B0\n",
    ],
)
def test_ways_to_write_the_same(read: Read, orders, text: str) -> None:
    schedule = read(text)
    assert orders(schedule) == ["0F0 0B0", "1F0 1B0"]
    assert (schedule.name, schedule.microbatches, schedule.virtual_stages) == ("csv:s.csv", 1, ((0,), (1,)))


def test_combined_calls_with_blanks(read: Read, orders) -> None:
    text = "0F0,1F0,0F1,( 1F1 ; 1B0 ) OVERLAP_F_B,0B0,1B1,0B1\n"
    assert orders(read(text)) == ["0F0 1F0 0F1 (1F1;1B0)OVERLAP_F_B 0B0 1B1 0B1"]


def test_ranks_may_hold_different_numbers_of_chunks(read: Read) -> None:
    schedule = read("0F0,2F0,2B0,0B0\n1F0,1B0\n")
    assert schedule.virtual_stages == ((0, 2), (1,))
    assert build_graph(schedule).n_ops == 6


NO_OPERATION = "is no operation such as 0F0, 3B2, 1I3 or 1W3"
REFUSED = {
    "0F0,0B0\n1F0,1X0\n": f"s.csv: line 2, column 2: '1X0' {NO_OPERATION}",
    "0F0,,0B\n": f"s.csv: line 1, column 3: '0B' {NO_OPERATION}",
    "0F0,0 B0\n": f"s.csv: line 1, column 2: '0 B0' {NO_OPERATION}",
    "0F0,0SEND_F,0B0\n": f"s.csv: line 1, column 2: '0SEND_F' {NO_OPERATION}",
    "0UNSHARD1,0F0,0B0\n": f"s.csv: line 1, column 1: '0UNSHARD1' {NO_OPERATION}",
    "0F0;0B0\n": f"s.csv: line 1, column 1: '0F0;0B0' {NO_OPERATION}",
    "\u0660F0,0B0\n": f"s.csv: line 1, column 1: '\u0660F0' {NO_OPERATION}",
    "0F0,0B0\n1F0,0F0,1B0\n": "s.csv: virtual stage 0 is on two ranks (lines 1 and 2)",
    "0F0,0B0\n2F0,2B0\n": "s.csv: it names virtual stage 2 but no virtual stage 1",
    "0F1,0B1\n": "s.csv: it names microbatch 1 but no microbatch 0",
    "0F0,0B0,0F2,0B2\n": "s.csv: it names microbatch 2 but no microbatch 1",
    "0F0,0B0\n\n1F0,1B0\n": "s.csv: line 2: a rank without operations",
    "": "s.csv: line 1: a rank without operations",
    '0F0,"0B0\n': "s.csv: line 1: unexpected end of data",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items())
def test_refusals_name_the_place(read: Read, text: str, message: str) -> None:
    with pytest.raises(ScheduleError) as refusal:
        read(text)
    assert str(refusal.value) == message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"cannot read .*none\.csv: No such file"):
        read_torch_csv(tmp_path / "none.csv")
