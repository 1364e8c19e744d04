import errno
import fcntl
import json
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from energyopt.profiler.measurement import exclusive
from energyopt.profiler.measurement.partial import FORMAT, Partial, partial_path
from energyopt.schemas.errors import MeasurementError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "profile.parquet.partial"


def opened(path: Path, digest: str = "d1", what: str = "sweep of this") -> Partial:
    return Partial(path, digest, what)


def begun(path: Path, count: int = 3) -> bytes:
    """A record of some windows that was left behind."""
    with opened(path) as partial:
        partial.add("plan", {"clocks": [1410]})
        for number in range(count):
            partial.add("window", {"round": number})
    return path.read_bytes()


def test_the_record_lies_beside_its_output() -> None:
    assert partial_path(Path("x/profile.parquet")) == Path("x/profile.parquet.partial")


def test_a_new_record_begins_with_its_header(path: Path) -> None:
    with opened(path) as partial:
        assert partial.records == []
        header = json.loads(path.read_text())
    assert (header["format"], header["schema_version"]) == (FORMAT, 1)
    assert (header["digest"], header["what"]) == ("d1", "sweep of this")


def test_what_was_kept_is_there_before_the_record_is_closed(path: Path) -> None:
    with opened(path) as partial:
        partial.add("window", {"round": 7})
        assert json.loads(path.read_text().splitlines()[-1]) == {"kind": "window", "value": {"round": 7}}


def test_a_record_goes_on_where_it_was_with_earlier_bytes_as_they_were(path: Path) -> None:
    before = begun(path)
    with opened(path) as partial:
        assert partial.all("window") == [{"round": 0}, {"round": 1}, {"round": 2}]
        assert partial.last("plan") == {"clocks": [1410]}
        assert partial.last("window") == {"round": 2}
        assert partial.last("latency") is None
        partial.add("window", {"round": 3})
    assert path.read_bytes() == before + b'{"kind":"window","value":{"round":3}}\n'


def test_a_last_line_that_was_cut_short_anywhere_is_dropped(path: Path) -> None:
    whole = begun(path)
    start = whole[:-1].rindex(b"\n") + 1
    for length in range(start, len(whole)):
        path.write_bytes(whole[:length])
        with opened(path) as partial:
            assert partial.all("window") == [{"round": 0}, {"round": 1}]
        assert path.read_bytes() == whole[:start]


def test_an_empty_file_is_a_new_record(path: Path) -> None:
    path.touch()
    with opened(path) as partial:
        partial.add("window", {"round": 0})
    with opened(path) as partial:
        assert partial.all("window") == [{"round": 0}]


def test_a_record_without_a_window_binds_nobody_and_goes_with_its_run(path: Path) -> None:
    with opened(path) as partial:
        partial.add("plan", {"clocks": [1410]})
        left = path.read_bytes()
    assert not path.exists()
    path.write_bytes(left)  # as after a power cut
    with opened(path, digest="d2") as partial:
        assert partial.records == []
        partial.add("window", {"round": 0})
    with opened(path, digest="d2") as partial:
        assert partial.last("plan") is None
        assert partial.all("window") == [{"round": 0}]


def test_a_record_of_another_run_is_refused_with_its_name_and_left_as_it_is(path: Path) -> None:
    before = begun(path)
    with pytest.raises(MeasurementError, match=r"something else \(sweep of this\); finish .* --restart"):
        opened(path, digest="d2", what="sweep of that")
    assert path.read_bytes() == before


def test_windows_that_were_rejected_are_left_out(path: Path) -> None:
    with opened(path) as partial:
        partial.add("plan", {"clocks": [1410]})
        partial.add("window", {"round": 0, "rejected": None})
        partial.add("window", {"round": 1, "rejected": "throttled"})
    before = path.read_bytes()
    with opened(path) as partial:
        assert partial.all("window") == [{"round": 0, "rejected": None}]
        assert partial.last("plan") is not None
        assert partial.rejected == 1
    assert path.read_bytes() == before


def test_where_every_window_was_rejected_all_is_measured_again(path: Path) -> None:
    with opened(path) as partial:
        partial.add("plan", {"clocks": [1410]})
        partial.add("window", {"round": 1, "rejected": "throttled"})
        left = path.read_bytes()
    assert not path.exists()
    for digest, rejected in (("d1", 1), ("d2", 0)):
        path.write_bytes(left)  # as after a kill
        with opened(path, digest) as partial:
            assert (partial.records, partial.rejected) == ([], rejected)
            assert len(path.read_bytes().splitlines()) == 1


def test_one_process_at_a_time_has_a_record(path: Path) -> None:
    words = rf"{path} is being written by process {os.getpid()}; wait for it, stop it, or give another -o"
    with opened(path) as partial:
        partial.add("window", {"round": 0})
        before = path.read_bytes()
        for restart in (False, True):
            with pytest.raises(MeasurementError, match=words):
                Partial(path, "d1", "the second", restart=restart)
        assert path.read_bytes() == before
    with opened(path) as partial:
        assert len(partial.records) == 1


def test_a_process_that_the_kernel_does_not_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusive, "LOCKS", path.with_name("none"))
    with opened(path), pytest.raises(MeasurementError, match="is being written by another process; "):
        opened(path)


def test_a_file_system_without_locks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with opened(path) as partial:
        partial.add("window", {"round": 0})
    assert path.exists()


def test_a_record_that_its_owner_has_just_removed_is_begun_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends between this process's opening of the file and its lock."""
    flock, first = fcntl.flock, opened(path)

    def after_the_end(descriptor: int, how: int) -> None:
        first.discard()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", after_the_end)
    with opened(path) as partial:
        partial.add("window", {"round": 0})
    assert begun_with(path) == {"round": 0}


def begun_with(path: Path) -> Any:
    """The first thing that a record keeps."""
    return json.loads(path.read_text().splitlines()[1])["value"]


def test_a_restart_throws_away_whatever_is_there(path: Path) -> None:
    begun(path)
    with Partial(path, "d2", "another", restart=True) as partial:
        assert partial.records == []
        partial.add("window", {"round": 5})
    assert begun_with(path) == {"round": 5}


def test_it_is_on_the_disk_after_some_seconds_and_at_the_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, synced_s = 100.0, list[float]()
    monkeypatch.setattr("energyopt.profiler.measurement.partial.time.monotonic", lambda: now_s)
    monkeypatch.setattr(os, "fsync", lambda _: synced_s.append(now_s))
    with opened(path) as partial:
        for _ in range(96):
            now_s += 0.125
            partial.add("window", {"round": 0})
    assert [one - 100.0 for one in synced_s] == [5.0, 10.0, 12.0]


@pytest.mark.parametrize(
    "content",
    [
        b"my notes\n",
        b"PAR1\x00\xff\xfe binary",
        b'{"a": 1}\n',
        b'[1, 2]\n{"format": "energyopt-profile-partial"}\n',
        b'"energyopt-profile-partial"\n',
        b"\n\n",
    ],
)
def test_a_file_of_something_else_is_refused_and_left_as_it_is(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(MeasurementError, match=r"is no record of this tool; move it away"):
        opened(path)
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"cannot write .*no/such.*: No such file"):
        opened(tmp_path / "no" / "such")
    with pytest.raises(MeasurementError, match=r"cannot write .*: Is a directory"):
        opened(tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_disk_that_is_full_from_the_start_is_an_error() -> None:
    with pytest.raises(MeasurementError, match="cannot write /dev/full: No space left on device"):
        opened(Path("/dev/full"))


@pytest.fixture
def limit_file_size() -> Iterator[Callable[[int], None]]:
    """Files of this process cannot grow beyond so many bytes until the test ends."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_fills_up_is_an_error_and_what_was_kept_stays(
    path: Path, limit_file_size: Callable[[int], None]
) -> None:
    before = begun(path)
    with opened(path) as partial:
        limit_file_size(len(before) + 10)
        with pytest.raises(MeasurementError, match=r"cannot write .*: File too large; .* is kept there"):
            partial.add("window", {"round": 3})
    assert path.read_bytes().startswith(before)
    limit_file_size(resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    with opened(path) as partial:
        assert partial.all("window") == [{"round": 0}, {"round": 1}, {"round": 2}]
        partial.add("window", {"round": 3})
    assert path.read_bytes() == before + b'{"kind":"window","value":{"round":3}}\n'


def test_a_complete_run_leaves_no_record(path: Path) -> None:
    with opened(path) as partial:
        partial.add("window", {"round": 0})
        partial.discard()
    assert not path.exists()
