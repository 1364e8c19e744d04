"""How operations are carried out, counted and in words."""

from collections import Counter

import pytest

from energyopt.planner.executions import (
    Configs,
    clock_words,
    config_words,
    executions,
    executions_by_key,
    launch_words,
    nanobatch_words,
    ordered,
    overlapped_words,
    sm_words,
)
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.partitions import PLAIN, Execution, PartitionConfig
from energyopt.schemas.planned_ops import PlannedOp


def _overlapped(sms: int | None, launch: str, clock: int | None = None) -> PartitionConfig:
    return PartitionConfig(
        execution=Execution.OVERLAPPED, comm_sms=sms, comm_launch=launch, sm_clock_mhz=clock
    )


def _op(microbatch: int, nanobatches: int = 1, **partitions: PartitionConfig) -> PlannedOp:
    return PlannedOp(
        op=OpKind.FORWARD,
        chunk=0,
        microbatch=microbatch,
        sm_clock_mhz=1400,
        nanobatches=nanobatches,
        partitions=tuple(sorted(partitions.items())),
    )


CONFIGS: Configs = Counter(
    {PLAIN: 2, _overlapped(3, "rope"): 3, _overlapped(24, "norm"): 1, _overlapped(None, "rope"): 2}
)


def test_operations_that_do_not_name_a_partition_run_it_plainly() -> None:
    config = _overlapped(8, "rope")
    found = executions([_op(0), _op(1, 2, attention=config), _op(2, 2, attention=config, mlp=config)])
    assert found.nanobatches == {1: 1, 2: 2}
    assert (found.ops, found.in_nanobatches, found.is_plain) == (3, 2, False)
    assert found.partitions == {"attention": {PLAIN: 1, config: 2}, "mlp": {PLAIN: 2, config: 1}}
    assert found.configs("norm") == {PLAIN: 3}


def test_a_partition_that_is_named_and_plain_is_plain() -> None:
    assert executions([_op(0, attention=PLAIN)]).is_plain
    assert not executions([_op(0, 2)]).is_plain


def test_keys_stand_in_order() -> None:
    found = executions_by_key(((_op(0), _op(1, 2)), (_op(0),)))
    assert list(found) == [OpKey(0, 0, OpKind.FORWARD), OpKey(1, 0, OpKind.FORWARD)]
    assert [one.ops for one in found.values()] == [2, 1]


def test_words() -> None:
    assert overlapped_words(CONFIGS) == "6 of 8"
    assert sm_words(CONFIGS) == "3 to 24, library's own (2)"
    assert launch_words(CONFIGS) == "rope (5), norm (1)"
    assert clock_words(CONFIGS) == "-"
    assert config_words(CONFIGS) == (
        "6 of 8 overlapped, SMs 3 to 24, library's own (2), before rope (5), norm (1)"
    )


def test_words_of_what_runs_by_itself() -> None:
    sequential: Configs = Counter({PartitionConfig(execution=Execution.SEQUENTIAL, comm_sms=4): 2})
    assert config_words(sequential) == "0 of 2 overlapped, SMs 4"
    assert config_words(Counter({PLAIN: 2})) == "0 of 2 overlapped"
    assert config_words(Counter({_overlapped(4, "norm", 900): 1, _overlapped(4, "norm", 1200): 2})) == (
        "3 of 3 overlapped, SMs 4, before norm (3), own MHz 900 to 1200 (3)"
    )


def test_many_launch_points_are_cut_short() -> None:
    many: Configs = Counter({_overlapped(4, f"kernel {number}"): 9 - number for number in range(6)})
    assert launch_words(many) == "kernel 0 (9), kernel 1 (8), kernel 2 (7), kernel 3 (6), 2 more"


@pytest.mark.parametrize(
    ("counts", "words"),
    [({1: 8}, "0 of 8"), ({1: 2, 2: 6}, "6 of 8 in 2"), ({1: 1, 2: 2, 4: 1}, "2 of 4 in 2, 1 of 4 in 4")],
)
def test_nanobatches_in_words(counts: dict[int, int], words: str) -> None:
    assert nanobatch_words(Counter(counts)) == words


def test_configurations_with_and_without_numbers_can_be_ordered() -> None:
    assert [config for config, _ in ordered(CONFIGS)] == [
        PLAIN,
        _overlapped(None, "rope"),
        _overlapped(3, "rope"),
        _overlapped(24, "norm"),
    ]
