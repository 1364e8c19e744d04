"""Which clock is asked for when, in virtual time: nothing here waits."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyopt.applier.helper.clockwork import Clockwork
from energyopt.applier.runtime.channel import BEGIN, END, OUTSIDE, STEP, UNKNOWN, Record

MS = 1_000_000
CLOCKS_MHZ = (1305, 900, 1200)
SAFE_MHZ = 1410


def begin(position: int, at_ms: float) -> Record:
    return Record(BEGIN, position, int(at_ms * MS), 0)


def end(at_ms: float) -> Record:
    return Record(END, 0, int(at_ms * MS), 0)


def step(at_ms: float, alternative: int = 0) -> Record:
    return Record(STEP, 0, int(at_ms * MS), alternative)


def outside(at_ms: float) -> Record:
    return Record(OUTSIDE, 1, int(at_ms * MS), 0)


def iteration(at_ms: float, gaps_ms: tuple[float, ...] = (10, 50, 80, 40)) -> list[Record]:
    """A step and the plan's three operations, each so long after the one before it, and the end of the last."""
    records = [step(at_ms)]
    for position, gap_ms in enumerate(gaps_ms[:3]):
        at_ms += gap_ms
        records.append(begin(position, at_ms))
    return [*records, end(at_ms + gaps_ms[3])]


class Board:
    """A driver that takes no time, and a helper that looks every 0.1 ms: `log` says what was set when, ms."""

    def __init__(self, clockwork: Clockwork) -> None:
        self.clockwork = clockwork
        self.log: list[tuple[float, int]] = []
        self.now_ns = 0
        self.clock_mhz: int | None = None

    def look(self, now_ns: int) -> None:
        target = self.clockwork.target_mhz(now_ns)
        if target is not None and target != self.clock_mhz:
            self.clock_mhz = target
            self.clockwork.told(target)
            self.log.append((now_ns / MS, target))

    def until(self, at_ns: int) -> None:
        while self.now_ns + MS // 10 <= at_ns:
            self.now_ns += MS // 10
            self.look(self.now_ns)

    def follow(self, records: Iterable[Record], until_ms: float | None = None) -> list[tuple[float, int]]:
        """What is set while these come in, and until then."""
        self.log = []
        for record in records:
            self.until(record.first)
            self.clockwork.feed(record)
            self.look(record.first)
        if until_ms is not None:
            self.until(int(until_ms * MS))
        return self.log


@pytest.fixture
def board() -> Board:
    clockwork = Clockwork((CLOCKS_MHZ, (810, 810, 705)), SAFE_MHZ)
    clockwork.lead_ns = 15 * MS
    return Board(clockwork)


def test_nothing_is_asked_for_before_training_starts(board: Board) -> None:
    assert board.follow([], until_ms=100) == []


def test_in_the_first_iteration_a_clock_is_asked_for_when_its_operation_begins(board: Board) -> None:
    assert board.follow(iteration(100)) == [(110, 1305), (160, 900), (240, 1200), (280, SAFE_MHZ)]


def test_from_the_second_on_it_is_asked_for_ahead_by_the_lead(board: Board) -> None:
    """Each is expected as long after the one before it as last time; so is the end of the last."""
    board.follow(iteration(100))
    expected = [(400, 1305), (445, 900), (525, 1200), (565, SAFE_MHZ)]
    assert board.follow(iteration(400)) == expected, "the first is due before its step is known, so at once"


def test_an_operation_that_comes_early_gets_its_clock_at_once(board: Board) -> None:
    board.follow(iteration(100))
    log = board.follow(iteration(400, (10, 20, 80, 40)))
    assert log[1] == (430, 900)


def test_one_that_comes_late_has_its_clock_already(board: Board) -> None:
    board.follow(iteration(100))
    log = board.follow(iteration(400, (10, 90, 80, 40)))
    assert log[1:3] == [(445, 900), (565, 1200)], "what follows it is expected as long after it as ever"


def test_the_lead_may_change(board: Board) -> None:
    board.follow(iteration(100))
    board.clockwork.lead_ns = 40 * MS
    assert board.follow(iteration(400))[1] == (420, 900)


@pytest.mark.parametrize("gaps", [(50, 50, 90), (50, 90, 50), (90, 50, 50), (50, 50, 1)])
def test_a_median_of_three_forgets_one_straggler(board: Board, gaps: tuple[int, ...]) -> None:
    for number, gap in enumerate(gaps):
        board.follow(iteration(1000 * number, (10, gap, 80, 40)))
    assert board.follow(iteration(5000))[1] == (5010 + 50 - 15, 900)
    assert board.follow(iteration(6000))[1] == (6010 + 50 - 15, 900)


def test_what_lasts_is_learnt(board: Board) -> None:
    for number in range(5):
        board.follow(iteration(1000 * number, (10, 50 if number < 3 else 70, 80, 40)))
    assert board.follow(iteration(5000, (10, 70, 80, 40)))[1] == (5010 + 70 - 15, 900)


@pytest.mark.parametrize("record", [begin(UNKNOWN, 470), outside(470)])
@pytest.mark.parametrize("known", [False, True])
def test_what_is_not_planned_runs_at_the_safe_clock(board: Board, record: Record, known: bool) -> None:
    """And nothing is asked for ahead of what does not come."""
    if known:
        board.follow(iteration(100))
    log = board.follow([step(400), begin(0, 410), begin(1, 460), record], until_ms=2000)
    assert log[-1] == (470, SAFE_MHZ)
    assert board.follow([begin(2, 2100)]) == [(2100, 1200)], (
        "an operation of the plan has its own clock again"
    )


def test_after_the_last_operation_comes_the_safe_clock(board: Board) -> None:
    for number in range(3):
        board.follow(iteration(1000 * number))
        assert board.clock_mhz == SAFE_MHZ
    assert board.follow([], until_ms=60_000) == []


def test_an_end_amid_the_iteration_means_nothing(board: Board) -> None:
    assert board.follow([step(0), begin(0, 10), end(20), end(30), begin(1, 40)]) == [(10, 1305), (40, 900)]


def test_a_clock_that_stands_is_not_asked_for_again() -> None:
    board = Board(Clockwork(((900, 900, 900),), 900))
    for number in range(4):
        board.follow(iteration(1000 * number))
        assert board.log == ([(10, 900)] if number == 0 else [])
    assert board.clockwork.dropped == 0


def test_operations_that_never_come_again_are_asked_for_no_longer(board: Board) -> None:
    """A captured graph is replayed: steps go on, operations are not called any more."""
    board.follow(iteration(0))
    for number in range(1, 4):
        board.follow([step(300 * number)])
    assert board.follow([step(1200), step(1500), step(1800)], until_ms=2000) == []
    assert board.clock_mhz == SAFE_MHZ
    assert board.follow(iteration(3000))[0] == (3010, 1305), "when they do come again, all is as at the start"


def test_the_first_steps_without_operations(board: Board) -> None:
    assert board.follow([step(0)], until_ms=100) == []
    assert board.follow([step(200), step(300)], until_ms=1000) == [(200, SAFE_MHZ)]


def test_a_pause_amid_the_iteration_goes_by_at_the_safe_clock(board: Board) -> None:
    """The second operation does not come: 15 ms before it was due its clock was set, and then it is overdue."""
    board.follow(iteration(0))
    log = board.follow([step(1000), begin(0, 1010)], until_ms=60_000)
    (_, first), (_, second), (late_ms, third) = log
    assert (first, second, third) == (1305, 900, SAFE_MHZ)
    assert 1060 < late_ms < 2000
    assert board.follow([begin(1, 60_100), begin(2, 60_180)]) == [(60_100, 900), (60_165, 1200)]


def test_one_pause_is_forgiven(board: Board) -> None:
    """Of three iterations that are remembered it costs one."""
    for number in range(3):
        board.follow(iteration(1000 * number))
    board.follow([step(4000), begin(0, 4010)], until_ms=9000)
    assert board.follow(iteration(9000))[1] == (9010 + 50 - 15, 900)


def test_only_what_followed_directly_is_learnt(board: Board) -> None:
    """Something else ran between the first operation and the second, which began sooner than it usually does."""
    board.follow([step(0), begin(0, 10), outside(20), begin(1, 30), begin(2, 110), end(150)])
    assert board.follow(iteration(2000))[1:3] == [(2060, 900), (2125, 1200)]


def test_alternatives_switch_with_a_step(board: Board) -> None:
    for number in range(2):
        board.follow(iteration(1000 * number))
    second = [step(2000, 1), *iteration(2000)[1:]]
    assert board.follow(second) == [(2000, 810), (2125, 705), (2165, SAFE_MHZ)]
    assert board.follow(iteration(3000))[0] == (3000, 1305)


def test_an_alternative_that_is_not_there_is_the_last(board: Board) -> None:
    board.follow([step(0, 9), begin(0, 10)])
    assert board.clock_mhz == 810


def test_due_and_span(board: Board) -> None:
    work = board.clockwork
    board.follow([step(0), begin(0, 10)])
    assert (work.due_ns, work.span_ns) == (None, None)
    board.follow(iteration(0)[2:])
    board.follow([step(400), begin(0, 410)])
    assert (work.due_ns, work.span_ns) == ((460 - 15) * MS, 50 * MS)
    board.follow([outside(420)])
    assert (work.due_ns, work.span_ns) == (None, None)


def test_a_backlog_is_cut_to_the_newest() -> None:
    """The driver hangs for a whole iteration: 1305 was on its way; of what came since, only the last is told."""
    work = Clockwork((CLOCKS_MHZ,), SAFE_MHZ)
    work.feed(step(0))
    work.feed(begin(0, 10))
    assert work.target_mhz(10 * MS) == 1305
    work.told(1305)
    for record in (begin(1, 60), begin(2, 140)):
        work.feed(record)
    assert work.target_mhz(150 * MS) == 1200
    assert work.dropped == 1, "900 was overtaken"


STREAMS = st.lists(
    st.tuples(
        st.one_of(
            st.integers(0, 2).map(lambda position: (BEGIN, position)),
            st.sampled_from([(BEGIN, UNKNOWN), (END, 0), (STEP, 0), (STEP, 1), (OUTSIDE, 1), (OUTSIDE, 0)]),
        ),
        st.integers(1, 200 * MS),  # after the one before it
        st.booleans(),  # whether the helper gets to look then
    ),
    max_size=60,
)


def expected_mhz(records: list[Record], clocks: tuple[tuple[int, ...], ...]) -> int | None:
    """Of the newest operation or the safe one, by reading the stream backwards; None before anything was said."""
    alternative = 0
    clock: int | None = None
    newest: int | None = None  # -1 right after a step
    for record in records:
        if record.kind == STEP:
            clock = SAFE_MHZ if newest == -1 else clock
            alternative, newest = record.second, -1
        elif record.kind == BEGIN and record.value != UNKNOWN:
            clock, newest = clocks[alternative][record.value], record.value
        elif record.kind != END or newest == len(CLOCKS_MHZ) - 1:
            clock, newest = SAFE_MHZ, None
    return clock


@given(stream=STREAMS)
def test_whatever_comes_the_clock_is_right_in_the_end(
    stream: list[tuple[tuple[int, int], int, bool]],
) -> None:
    """Of any stream, seen in any pieces: the newest operation's clock; and every request was told or dropped."""
    clocks = (CLOCKS_MHZ, (810, 810, 705))
    work = Clockwork(clocks, SAFE_MHZ)
    at_ns, told, requests = 0, 0, 0
    wanted: int | None = None
    on_board: int | None = None
    records: list[Record] = []
    for (kind, value), gap_ns, looks in stream:
        at_ns += gap_ns
        at = value if kind != STEP else 0
        records.append(Record(kind, at, at_ns, value if kind == STEP else 0))
        work.feed(records[-1])
        # without looking at a clock's due time nothing is asked for ahead, so that the model can follow
        now = expected_mhz(records, clocks)
        requests += now not in (wanted, on_board)
        wanted = now
        assert work.target_mhz(0) == now
        if looks and now is not None and now != on_board:
            on_board, told = now, told + 1
            work.told(now)
    waiting = wanted != on_board
    assert told + work.dropped + waiting == requests


@given(stream=STREAMS, lead_ms=st.integers(0, 300), lateness_ns=st.integers(0, 100 * MS))
def test_whatever_comes_and_however_late_it_is_seen(
    stream: list[tuple[tuple[int, int], int, bool]], lead_ms: int, lateness_ns: int
) -> None:
    """The clock is always one of the plan's, and a silence of any length after it ends at the safe one or stays."""
    work = Clockwork((CLOCKS_MHZ, (810, 810, 705)), SAFE_MHZ)
    work.lead_ns = lead_ms * MS
    at_ns = 0
    for (kind, value), gap_ns, looks in stream:
        at_ns += gap_ns
        work.feed(Record(kind, 0 if kind == STEP else value, at_ns, value if kind == STEP else 0))
        if looks:
            target = work.target_mhz(at_ns + lateness_ns)
            assert target in {None, SAFE_MHZ, *CLOCKS_MHZ, 810, 705}
            if target is not None:
                work.told(target)
    learnt = work.span_ns is not None
    last = work.target_mhz(at_ns + 3600 * 1000 * MS)
    assert last == SAFE_MHZ or not learnt


def test_what_a_clock_is_wanted_for(board: Board) -> None:
    """Telemetry says of each operation whether the driver was told its clock."""
    work = board.clockwork
    found = []
    for record in iteration(100):
        board.follow([record])
        found.append((board.clock_mhz, work.wanted_for))
    assert found == [(None, None), (1305, 0), (900, 1), (1200, 2), (SAFE_MHZ, None)]
    board.follow([step(400)], until_ms=401)
    assert (board.clock_mhz, work.wanted_for) == (1305, 0), "ahead of it"
    board.follow([begin(0, 410)], until_ms=446)
    assert (board.clock_mhz, work.wanted_for) == (900, 1)
    board.follow([], until_ms=5000)
    assert (board.clock_mhz, work.wanted_for) == (SAFE_MHZ, None), "it does not come"
