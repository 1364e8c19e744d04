"""Two real ranks: the same losses, outputs and gradients, bit for bit, whatever is launched when."""

import importlib.util
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install energyopt[torch]")

FORWARD = {
    "attention": ("qkv_proj", "rope", "attention", "out_proj"),
    "mlp": ("gate_up_proj", "activation", "down_proj"),
}
BACKWARD = {
    "attention": ("out_proj.dgrad", "attention.backward", "rope.backward", "qkv_proj.dgrad"),
    "mlp": ("down_proj.dgrad", "activation.backward", "gate_up_proj.dgrad"),
}
LAYERS = 2
TENSOR = [(block, *pair) for block in FORWARD for pair in product(FORWARD[block], BACKWARD[block])]
SEQUENCE = list(product(FORWARD["mlp"], BACKWARD["mlp"]))

Ranks = list[dict[str, Any]]


@pytest.fixture(scope="module")
def ranks(two_ranks: Callable[..., list[str]], tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """All scenarios are run in one job, since torch takes its time to load."""
    folder: Path = tmp_path_factory.mktemp("layers")
    outs = [folder / f"rank{rank}.json" for rank in range(2)]
    two_ranks("ranks.py", outs)
    return [json.loads(out.read_text()) for out in outs]


def beside(events: list[str], sms: int) -> list[list[str]]:
    """What ran between the start of each communication in this many SMs and its end."""
    found = []
    for place, event in enumerate(events):
        if event.endswith(f" in {sms}"):
            end = events.index("wait", place)
            found.append(events[place + 1 : end])
    return found


@pytest.mark.parametrize("scenario", ["tensor without a plan", "sequence without a plan"])
def test_without_a_plan_everything_runs_in_turn(ranks: Ranks, scenario: str) -> None:
    for rank in ranks:
        assert rank[scenario]["numbers"] == rank[f"plain {scenario.split(maxsplit=1)[0]}"]["numbers"]
        for way in ("forward", "backward"):
            events = rank[scenario][way]
            starts = [place for place, event in enumerate(events) if event.startswith("start")]
            assert starts
            assert all(events[place + 1] == "wait" and events[place].endswith("None") for place in starts)


@pytest.mark.parametrize(("block", "launch", "back"), TENSOR)
def test_a_tensor_parallel_layer(ranks: Ranks, block: str, launch: str, back: str) -> None:
    """Each communication starts right before its kernel, and ends after its block's last one.

    Of a block's two parts in each layer, the very first has nothing to wait for, nor has the last one a gradient.
    """
    kernels, backward = FORWARD[block], BACKWARD[block]
    for rank in ranks:
        found = rank[f"tensor {block} {launch} {back}"]
        assert found["numbers"] == rank["plain tensor"]["numbers"]
        assert found["said"] == []
        times = 2 * LAYERS - (block == "attention")
        assert beside(found["forward"], 4) == [list(kernels[kernels.index(launch) :])] * times
        expected = list(backward[backward.index(back) :])
        assert beside(found["backward"], 8) == [expected] * (2 * LAYERS - 1)


@pytest.mark.parametrize(("launch", "back"), SEQUENCE)
def test_a_sequence_parallel_layer(ranks: Ranks, launch: str, back: str) -> None:
    """Gathering beside one part, scattering beside the other; and the other way round on the way back."""
    kernels, backward = FORWARD["mlp"], BACKWARD["mlp"]
    for rank in ranks:
        found = rank[f"sequence {launch} {back}"]
        assert found["numbers"] == rank["plain sequence"]["numbers"]
        assert found["said"] == []
        assert beside(found["forward"], 4) == [list(kernels[kernels.index(launch) :])] * (2 * LAYERS)
        assert beside(found["backward"], 8) == [list(backward[backward.index(back) :])] * (2 * LAYERS)
        collectives = [event.split()[1] for event in found["backward"] if event.endswith("in 8")]
        assert collectives == ["all_gather", "reduce_scatter"] * LAYERS


def test_a_kernel_that_is_never_met(ranks: Ranks) -> None:
    """The communication starts when its result is needed, which is said once."""
    for rank in ranks:
        found = rank["never reached"]
        assert found["numbers"] == rank["plain tensor"]["numbers"]
        assert beside(found["forward"], 4) == [[]] * (2 * LAYERS)
        assert beside(found["backward"], 8) == [[]] * (2 * LAYERS - 1)
        first, second = found["said"]
        assert "partition mlp: no kernel is called no such kernel" in first
        assert "partition mlp: no kernel is called no such backward" in second


def test_sequential_with_bounded_sms(ranks: Ranks) -> None:
    """Communicated where the block begins, in the group that the plan names."""
    for rank in ranks:
        found = rank["sequential"]
        assert found["numbers"] == rank["plain tensor"]["numbers"]
        assert beside(found["forward"], 4) == [[]] * (2 * LAYERS)


def test_a_graph_that_is_kept_for_a_second_backward(ranks: Ranks) -> None:
    for rank in ranks:
        twice = rank["backward twice"]
        assert twice["numbers"] == rank["without a plan twice"]["numbers"]
        assert beside(twice["backward"], 8) == [["activation.backward", "gate_up_proj.dgrad"]] * 2 * (
            2 * LAYERS - 1
        )


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing(ranks: Ranks, reentrant: bool) -> None:
    """Everything is computed again once, with the plan's partitions of that name, and the backward is as ever."""
    for rank in ranks:
        found = rank[f"checkpoint {reentrant}"]
        assert found["numbers"] == rank["plain tensor"]["numbers"]
        assert found["said"] == []
        events = found["backward"]
        assert events.count("down_proj") == events.count("down_proj.dgrad") == 2 * LAYERS
        recomputed = [event for event in events if event.endswith(("_proj", " in 4"))]
        starts = [place for place, event in enumerate(recomputed) if event.endswith(" in 4")]
        assert [recomputed[place + 1] for place in starts] == ["down_proj"] * (2 * LAYERS)
        assert beside(events, 8) == [["activation.backward", "gate_up_proj.dgrad"]] * (2 * LAYERS - 1)


def test_without_gradients(ranks: Ranks) -> None:
    for rank in ranks:
        assert rank["no gradient"]["same"]
        assert not rank["no gradient"]["grown"]
        assert beside(rank["no gradient"]["forward"], 4) == [["activation", "down_proj"]] * (2 * LAYERS)


def test_an_exception_on_one_rank_leaves_no_other_waiting(ranks: Ranks) -> None:
    """1 + 2 on the rank that goes on; and the communicators can be used further."""
    assert [rank["one fails"]["joined"] for rank in ranks] == ["raised 'out of data'", [3.0, 3.0]]
    assert [rank["one fails"]["after"] for rank in ranks] == [[2.0, 2.0]] * 2


def test_one_region_in_all_the_ways_it_can_be_held(ranks: Ranks) -> None:
    for rank in ranks:
        found = rank["by itself"]
        assert found["handed back"] and found["joined once"]
        assert found["sum"] == [3.0, 3.0]  # 1 from each of two ranks, and 1 that the caller adds to it
        assert "once_differentiable" in found["twice"]
        assert "`then`" in found["inputs"]


def test_each_exchange_and_its_gradient(ranks: Ranks) -> None:
    """Worked out by hand: rank r gives (r + 1) x (1, 2), and weighs what it gets by (r + 1) x (1, 2, ...)."""
    assert [rank["pairs"] for rank in ranks] == [
        {
            "R": [[3.0, 6.0], [1.0, 2.0]],
            "C": [[1.0, 2.0], [1.0 + 2.0, 2.0 + 4.0]],
            "RC": [[3.0, 6.0], [3.0, 6.0]],
            "G": [[1.0, 2.0, 2.0, 4.0], [1.0 + 2.0, 2.0 + 4.0]],
            "S": [[1.0 + 2.0], [1.0, 2.0]],
        },
        {
            "R": [[3.0, 6.0], [2.0, 4.0]],
            "C": [[2.0, 4.0], [3.0, 6.0]],
            "RC": [[3.0, 6.0], [3.0, 6.0]],
            "G": [[1.0, 2.0, 2.0, 4.0], [3.0 + 6.0, 4.0 + 8.0]],
            "S": [[2.0 + 4.0], [1.0, 2.0]],
        },
    ]
    for rank in ranks:
        assert rank["uneven"] == "3 rows cannot be scattered over 2 ranks"
        assert rank["weights between"] == [2.0 * 3.0] * 2  # the sum of two ones, times the sum of 1 and 2


def test_what_is_communicated_need_not_be_differentiable(ranks: Ranks) -> None:
    """Rows 0 and 1 of the table, and in its gradient the numbers that they were multiplied by."""
    for rank in ranks:
        assert rank["whole numbers"] == [[[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]]]


def test_weights_between_in_ddp(ranks: Ranks) -> None:
    """The sum of two ones, times 1 or 2, averaged over the ranks."""
    assert [rank["ddp"] for rank in ranks] == [[3.0, 3.0]] * 2


def test_a_tensor_without_dimensions(ranks: Ranks) -> None:
    for rank in ranks:
        gather, scatter = rank["without dimensions"]
        assert gather.startswith("all_gather ") and scatter.startswith("reduce_scatter ")
        assert "()" in gather and "()" in scatter


def test_ranks_of_one_group_with_other_counts(ranks: Ranks) -> None:
    """As of two pipeline stages: no rank waits in a group that the other one does not make."""
    for place, rank in enumerate(ranks):
        agreed, said, took_s = rank["other counts"]
        assert not agreed
        assert f"({('4', '4 5')[place]})" in said[0]
        assert took_s < 20.0  # far from any deadline


def test_a_communicator_for_each_count(ranks: Ranks) -> None:
    for rank in ranks:
        assert rank["groups"] == {"distinct": 3, "unknown": True}


def test_all_ranks_follow_the_plan_or_none(ranks: Ranks) -> None:
    followed = [True, 2, "overlapped, 4 SMs, before activation"]
    plain = [False, 1, "None"]
    word = "not every rank can follow the plan's partitions: they run one kernel after the other"
    for scenario in ("agree", "and all is well again"):
        assert [rank[scenario][:4] for rank in ranks] == [[*followed, []]] * 2
    for scenario in ("other plans", "one comes too late"):
        assert [rank[scenario][:4] for rank in ranks] == [[*plain, [word]]] * 2
    first, second = [rank["one is off"][:4] for rank in ranks]
    assert first == [*plain, [word]]
    assert second == [*plain, []]  # it has no plan to speak of
    first, second = [rank["one cannot make them"][:4] for rank in ranks]
    assert "ZeroDivisionError" in first[3][0]
    assert first[3][1:] == second[3] == [word]
    assert first[:3] == second[:3] == plain
    late = [rank["one comes too late"][4] for rank in ranks]
    assert 0.4 < late[0] < 60.0  # its limit was 0.5 s
    assert late[1] < 0.4  # the other one finds it decided


def test_what_a_launch_point_costs(ranks: Ranks) -> None:
    """A microsecond or two, in the best of five rounds on a machine that runs other tests."""
    for rank in ranks:
        assert rank["cost_us"]["unplanned"] < 2.0
        assert rank["cost_us"]["planned"] < 2.0


def test_the_kernels_named_here_are_those_of_the_layers() -> None:
    path = Path(__file__).with_name("layers.py")
    spec = importlib.util.spec_from_file_location("layers", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.FORWARD == FORWARD
    assert module.BACKWARD == BACKWARD
