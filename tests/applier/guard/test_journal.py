import json
from collections.abc import Callable
from pathlib import Path

import pytest

from energyopt.applier.devices.interface import ClockKnob, FoundClocks
from energyopt.applier.guard.journal import (
    Journal,
    Origin,
    journal_path,
    make_state_folder,
    read_journal,
    state_folder,
    write_journal,
)
from energyopt.schemas.errors import ClockControlError, FileFormatError

Make = Callable[..., Journal]


@pytest.mark.parametrize(
    ("own", "xdg", "expected"),
    [
        ("/own", "/xdg", "/own"),
        (None, "/xdg", "/xdg/energyopt"),
        (None, "relative", "/home/me/.local/state/energyopt"),
        (None, None, "/home/me/.local/state/energyopt"),
        ("", None, "/home/me/.local/state/energyopt"),
    ],
)
def test_where_journals_go(
    own: str | None, xdg: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in (("ENERGYOPT_STATE_DIR", own), ("XDG_STATE_HOME", xdg)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert str(state_folder()) == expected


def test_the_folder_is_for_its_owner_alone(state: Path) -> None:
    assert make_state_folder() == state
    assert state.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "found",
    [
        FoundClocks(knob=ClockKnob.LOCKED_CLOCKS),
        FoundClocks(knob=ClockKnob.LOCKED_CLOCKS, locked_mhz=(600, 1200)),
        FoundClocks(knob=ClockKnob.APPLICATION_CLOCKS, application_mhz=1305, application_memory_mhz=1593),
    ],
)
def test_round_trip(tmp_path: Path, make_journal: Make, found: FoundClocks) -> None:
    journal = make_journal(found=found)
    path = journal_path(tmp_path, journal.uuid)
    write_journal(path, journal)
    assert read_journal(path) == journal
    assert path.name == "GPU-1.json"


def test_the_name_of_a_board_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    assert journal_path(tmp_path, "../GPU/1").parent == tmp_path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "energyopt-plan"}, "format 'energyopt-plan'"),
        ({"schema_version": 2}, "upgrade energyopt"),
        ({"found": {"knob": "memory_clocks"}}, r"unknown knob 'memory_clocks'.* @ \$.found.knob"),
        ({"found": {"knob": "locked_clocks", "locked_mhz": [1]}}, r"found 1 values @ \$.found.locked_mhz"),
        ({"owner": {"pid": 0}}, r"@ \$.owner.pid"),
    ],
)
def test_a_damaged_journal_is_refused(
    tmp_path: Path, make_journal: Make, changes: dict[str, object], message: str
) -> None:
    path = tmp_path / "GPU-1.json"
    write_journal(path, make_journal())
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(FileFormatError, match=message):
        read_journal(path)


def test_where_it_was_written(make_journal: Make) -> None:
    assert make_journal().origin() is Origin.THIS_BOOT
    assert make_journal(host="container-17").origin() is Origin.THIS_BOOT  # the same kernel runs it
    assert make_journal(boot_id="another").origin() is Origin.EARLIER_BOOT
    assert make_journal(boot_id="another", host="another").origin() is Origin.OTHER_HOST


def test_a_folder_that_cannot_be_written(tmp_path: Path, make_journal: Make) -> None:
    with pytest.raises(ClockControlError, match="no clock was changed"):
        write_journal(tmp_path / "none" / "GPU-1.json", make_journal())
