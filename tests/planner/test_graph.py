import itertools
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from energyopt.planner.graph import Graph, build_graph
from energyopt.planner.schedules import SCHEDULES, read_torch_csv
from energyopt.planner.simulation import simulate
from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.notation import parse_order
from energyopt.schemas.ops import Op, OpKind, Schedule

CSV_FILES = sorted((Path(__file__).parent / "schedules" / "data").glob("*[!d].csv"))  # not *-printed.csv
V_SHAPE = ((0, 3), (1, 2))


def written(
    *orders: str, microbatches: int = 1, placement: tuple[tuple[int, ...], ...] | None = None
) -> Schedule:
    placement = placement or tuple((stage,) for stage in range(len(orders)))
    return Schedule(
        name="test",
        microbatches=microbatches,
        virtual_stages=placement,
        orders=tuple(parse_order(text, stage, placement, "test") for stage, text in enumerate(orders)),
    )


def edges(graph: Graph) -> list[tuple[int, int, float]]:
    return list(zip(graph.tail.tolist(), graph.head.tolist(), graph.lag_s.tolist(), strict=True))


def finish_times(graph: Graph, time_s: np.ndarray) -> np.ndarray:
    """Longest paths, one edge at a time; fails where `order` is not topological."""
    finish = np.full(graph.n_ops, np.nan)
    incoming: list[list[tuple[int, float]]] = [[] for _ in range(graph.n_ops)]
    for tail, head, lag_s in edges(graph):
        incoming[head].append((tail, lag_s))
    for op in graph.order:
        finish[op] = time_s[op] + max((finish[tail] + lag_s for tail, lag_s in incoming[op]), default=0.0)
    return finish


def agrees_with_simulation(schedule: Schedule, p2p_time_s: float) -> bool:
    time_s = np.random.default_rng(7).uniform(0.5, 2.0, len(schedule.ops))
    timeline = simulate(schedule, time_s.tolist(), p2p_time_s)
    finish = finish_times(build_graph(schedule, p2p_time_s), time_s)
    return bool(np.allclose(finish, timeline.finish_s, rtol=1e-12, atol=0.0))


def test_two_stages_by_hand() -> None:
    # stage 0: F0 F1 B0 B1 are operations 0 to 3; stage 1: F0 B0 F1 B1 are operations 4 to 7
    schedule = written("0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1", microbatches=2)
    graph = build_graph(schedule, 0.5)
    assert edges(graph) == [
        (0, 1, 0.0),
        (1, 2, 0.0),
        (5, 2, 0.5),
        (2, 3, 0.0),
        (7, 3, 0.5),
        (0, 4, 0.5),
        (4, 5, 0.0),
        (1, 6, 0.5),
        (5, 6, 0.0),
        (6, 7, 0.0),
    ]
    assert (graph.n_ops, graph.n_edges) == (8, 10)
    assert [array.dtype for array in (graph.tail, graph.head, graph.lag_s, graph.order)] == [
        np.int32,
        np.int32,
        np.float64,
        np.int32,
    ]


def test_neighbours_are_the_edges() -> None:
    graph = build_graph(written("0F0 0B0", "1F0 1B0"), 0.25)
    assert graph.predecessors == [[], [(0, 0.0), (3, 0.25)], [(0, 0.25)], [(2, 0.0)]]
    assert graph.successors == [[(1, 0.0), (2, 0.25)], [], [(3, 0.0)], [(1, 0.25)]]
    assert graph.successors is graph.successors


def test_no_transfer_between_chunks_of_one_stage() -> None:
    schedule = written("0F0 1F0 1B0 0B0", placement=((0, 1),))
    assert edges(build_graph(schedule, 9.0)) == [(0, 1, 0.0), (1, 2, 0.0), (2, 3, 0.0)]


def test_split_backward_passes_its_gradient_on_before_the_weights() -> None:
    schedule = written("0F0 0I0 0W0", "1F0 1I0 1W0")
    assert edges(build_graph(schedule, 1.0)) == [
        (0, 1, 0.0),
        (4, 1, 1.0),
        (1, 2, 0.0),
        (0, 3, 1.0),
        (3, 4, 0.0),
        (4, 5, 0.0),
    ]


def test_one_call_for_a_microbatch_forward_and_back() -> None:
    schedule = written("0F0 0B0", "(1F0;1B0)OVERLAP_F_B")
    assert edges(build_graph(schedule, 1.0)) == [(0, 1, 0.0), (2, 1, 1.0), (0, 2, 1.0)]


def test_combined_calls_on_two_stages_share_one_edge() -> None:
    schedule = written(
        "0F0 3F0 (0F1;3B0)OVERLAP_F_B 3F1 3B1 0B0 0B1",
        "1F0 2F0 (1F1;2B0)OVERLAP_F_B 2F1 1B0 2B1 1B1",
        microbatches=2,
        placement=V_SHAPE,
    )
    graph = build_graph(schedule, 1.0)
    assert edges(graph).count((2, 9, 1.0)) == 1
    assert len(set(edges(graph))) == graph.n_edges
    assert agrees_with_simulation(schedule, 1.0)


def test_optimizer_and_gradient_sync_only_follow_the_stage_order() -> None:
    base = written("0F0 0B0", "1F0 1B0")
    ends = (OpKind.GRAD_SYNC, OpKind.OPTIMIZER)
    orders = tuple(
        (*order, *(Op(stage=stage, chunk=0, microbatch=0, kind=kind) for kind in ends))
        for stage, order in enumerate(base.orders)
    )
    schedule = Schedule(name="t", microbatches=1, virtual_stages=base.virtual_stages, orders=orders)
    assert [edge[:2] for edge in edges(build_graph(schedule))] == [
        (0, 1),
        (5, 1),
        (1, 2),
        (2, 3),
        (0, 4),
        (4, 5),
        (5, 6),
        (6, 7),
    ]


@pytest.mark.parametrize("path", CSV_FILES, ids=lambda path: path.stem)
def test_longest_paths_are_what_the_simulator_finds_in_pytorch_schedules(path: Path) -> None:
    assert agrees_with_simulation(read_torch_csv(path), 0.3)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(("stages", "microbatches"), [(1, 1), (1, 5), (3, 2), (4, 1), (4, 9), (6, 4)])
def test_longest_paths_are_what_the_simulator_finds(name: str, stages: int, microbatches: int) -> None:
    chunks = 3 if name == "interleaved-1f1b" else 1
    assert agrees_with_simulation(SCHEDULES[name](stages, microbatches, chunks), 0.3)


def test_same_schedule_same_graph() -> None:
    first, second = (build_graph(SCHEDULES["interleaved-1f1b"](4, 9, 2), 0.1) for _ in range(2))
    assert edges(first) == edges(second)
    assert first.order.tolist() == second.order.tolist()
    assert sorted(first.order.tolist()) == list(range(first.n_ops))
    assert edges(first) == sorted(edges(first), key=lambda edge: (edge[1], edge[0]))


REFUSED = {
    "twice": (
        written("0F0 0F0 0B0"),
        "schedule test: forward of microbatch 0 on stage 0 repeats a forward that is already done",
    ),
    "no forward on the next stage": (
        written("0F0 0B0", "1B0"),
        "schedule test lacks the forward of microbatch 0 on virtual stage 1, "
        "which backward of microbatch 0 on stage 1 calls for",
    ),
    "no forward on the stage before": (
        written("", "1F0 1B0"),
        "schedule test lacks the forward of microbatch 0 on virtual stage 0, "
        "which forward of microbatch 0 on stage 1 calls for",
    ),
    "a microbatch is left out": (
        written("0F0 0B0", microbatches=2),
        "schedule test lacks the forward of microbatch 1 on virtual stage 0, which every microbatch needs",
    ),
    "no backward": (
        written("0F0 0B0", "1F0"),
        "schedule test lacks the backward of microbatch 0 on virtual stage 1, "
        "which forward of microbatch 0 on stage 1 calls for",
    ),
    "input half alone": (
        written("0F0 0I0"),
        "schedule test lacks the backward_weight of microbatch 0 on virtual stage 0, "
        "which backward_input of microbatch 0 on stage 0 calls for",
    ),
    "weight half of a full backward": (
        written("0F0 0B0 0W0"),
        "schedule test lacks the backward_input of microbatch 0 on virtual stage 0, "
        "which backward_weight of microbatch 0 on stage 0 calls for",
    ),
    "full and split": (
        written("0F0 0B0 0I0 0W0"),
        "schedule test: backward_input of microbatch 0 on stage 0 repeats part of the full backward there",
    ),
    "microbatch too large": (
        written("0F0 0B0 0F1 0B1"),
        "schedule test: forward of microbatch 1 on stage 0 is outside its microbatches 0 to 0",
    ),
    "backward first": (
        written("0B0 0F0"),
        "schedule test: backward of microbatch 0 on stage 0 stands before "
        "forward of microbatch 0 on stage 0, which it needs",
    ),
    "weights first": (
        written("0F0 0W0 0I0"),
        "schedule test: backward_weight of microbatch 0 on stage 0 stands before backward_input of "
        "microbatch 0 on stage 0, which it needs",
    ),
    "second chunk first": (
        written("1F0 0F0 1B0 0B0", placement=((0, 1),)),
        "schedule test: forward of microbatch 0 on stage 0, chunk 1 stands before "
        "forward of microbatch 0 on stage 0, which it needs",
    ),
    "virtual stage left out": (
        written("0F0 0B0", "2F0 2B0", placement=((0,), (2,))),
        "schedule test: its virtual stages are [0, 2], not 0, 1, ... once each",
    ),
    "no microbatches": (
        written("", microbatches=0),
        "schedule test has 0 microbatches, not at least 1",
    ),
}


@pytest.mark.parametrize(("schedule", "text"), REFUSED.values(), ids=REFUSED)
def test_refusals_name_the_operation(schedule: Schedule, text: str) -> None:
    with pytest.raises(ScheduleError) as refusal:
        build_graph(schedule)
    assert str(refusal.value) == text


def _op(kind: OpKind = OpKind.FORWARD, stage: int = 0, chunk: int = 0, microbatch: int = 0) -> Op:
    return Op(stage=stage, chunk=chunk, microbatch=microbatch, kind=kind)


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (_op(microbatch=-1), "forward of microbatch -1 on stage 0 is outside its microbatches 0 to 0"),
        (_op(chunk=1), "forward of microbatch 0 on stage 0, chunk 1 names chunk 1, its stage has 1"),
        (_op(stage=1), "forward of microbatch 0 on stage 1 stands in the order of stage 0"),
        (
            _op(OpKind.FORWARD_BACKWARD),
            "forward_backward of microbatch 0 on stage 0 does not say which backward it runs",
        ),
    ],
)
def test_operations_that_no_file_could_name_are_refused(op: Op, text: str) -> None:
    schedule = Schedule(name="test", microbatches=1, virtual_stages=((0,),), orders=((op,),))
    with pytest.raises(ScheduleError) as refusal:
        build_graph(schedule)
    assert str(refusal.value) == f"schedule test: {text}"


def test_placement_and_orders_must_agree() -> None:
    schedule = Schedule(name="test", microbatches=1, virtual_stages=((0,), (1,)), orders=((),))
    with pytest.raises(ScheduleError, match="places 2 stages but orders 1"):
        build_graph(schedule)


@pytest.mark.parametrize(
    ("first", "second"),
    [("0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0"), ("0F1 0F0 0B0 0B1", "1F0 1B0 1F1 1B1")],
)
def test_a_cycle_is_refused_exactly_when_the_simulator_stops(first: str, second: str) -> None:
    schedule = written(first, second, microbatches=2)
    try:
        simulate(schedule, [1.0] * 8)
    except ScheduleError:
        with pytest.raises(ScheduleError, match=r"cannot run: .* waits for .*, which in turn waits for it"):
            build_graph(schedule)
    else:
        build_graph(schedule)


def test_the_named_wait_lies_on_the_cycle() -> None:
    # B0 on stage 0 waits for B0 on stage 1, which waits for F1 on stage 0, which stands after B0
    schedule = written("0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1", microbatches=2)
    on_cycle = (
        "backward of microbatch 0 on stage 0 waits for backward of microbatch 0 on stage 1",
        "forward of microbatch 1 on stage 1 waits for forward of microbatch 1 on stage 0",
    )
    with pytest.raises(ScheduleError) as refusal:
        build_graph(schedule)
    assert str(refusal.value) in {
        f"schedule test cannot run: {wait}, which in turn waits for it" for wait in on_cycle
    }


def test_every_order_of_two_small_stages_is_judged_like_the_simulator() -> None:
    words = ("F0", "F1", "B0", "B1")
    accepted = 0
    for one, other in itertools.product(itertools.permutations(words), repeat=2):
        schedule = written(
            " ".join(f"0{word}" for word in one), " ".join(f"1{word}" for word in other), microbatches=2
        )
        runs = _succeeds(lambda schedule=schedule: simulate(schedule, [1.0] * 8))
        assert _succeeds(lambda schedule=schedule: build_graph(schedule)) == runs
        accepted += runs
    assert 0 < accepted < 24 * 24


def _succeeds(call: Callable[[], object]) -> bool:
    try:
        call()
    except ScheduleError:
        return False
    return True


def test_time_is_linear_in_the_operations() -> None:
    small, large = (SCHEDULES["1f1b"](8, microbatches, 1) for microbatches in (512, 4096))

    def fastest_s(schedule: Schedule) -> float:
        times = []
        for _ in range(3):
            start = time.perf_counter()
            build_graph(schedule)
            times.append(time.perf_counter() - start)
        return min(times)

    assert fastest_s(large) < 24 * fastest_s(small)  # 8 times the operations: 8 if linear, 64 if quadratic
