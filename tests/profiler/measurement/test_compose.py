from statistics import stdev

import pytest

from energyopt.applier.devices.interface import Throttle
from energyopt.profiler.measurement.compose import gaps_of, op_parts, rows_of
from energyopt.profiler.measurement.statistics import DRIFT, NORMAL_QUANTILE
from energyopt.profiler.measurement.window import Window
from energyopt.profiler.workloads.composites import composite, with_composites
from energyopt.profiler.workloads.interface import (
    Collective,
    Communication,
    Kernel,
    KernelUse,
    Partition,
    PartitionUse,
    Workload,
    WorkloadOp,
)
from energyopt.schemas.intervals import half_width
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import PLAIN, Execution, PartitionConfig
from energyopt.schemas.profile import EnergySource, Level, ProfileRow

CLOCK = 1200


def window(
    kernel: str, number: int, time_s: float, energy_j: float | None, clock: int = CLOCK, **more: object
) -> Window:
    return Window(
        kernel=kernel,
        sm_clock_mhz=clock,
        round=number,
        time_s=time_s,
        energy_j=energy_j,
        energy_error_j=None if energy_j is None else 0.0,
        repeats=10,
        **more,  # type: ignore[arg-type]
    )


def all_reduce(name: str, sms: int | None) -> Kernel:
    communication = Communication(
        collective=Collective.ALL_REDUCE, message_bytes=1e6, group="tensor", ranks=2, sms=sms
    )
    return Kernel(name=name, flops=0.0, memory_bytes=1e6, communication=communication)


A, B, C = (Kernel(name=name, flops=1e9, memory_bytes=1e6) for name in "abc")


@pytest.fixture
def two_partitions() -> Workload:
    """A forward of (2a + b) x 3 and (a + c) x 2, so 8a + 3b + 2c; and a backward of c alone."""
    first = Partition(name="p", kernels=(KernelUse(kernel=A, count=2), KernelUse(kernel=B)))
    second = Partition(name="q", kernels=(KernelUse(kernel=A), KernelUse(kernel=C)))
    third = Partition(name="r", kernels=(KernelUse(kernel=C),))
    forward = (PartitionUse(partition=first, count=3), PartitionUse(partition=second, count=2))
    return Workload(
        name="two",
        stages=1,
        ops=(
            WorkloadOp(stage=0, chunk=0, kind=OpKind.FORWARD, partitions=forward),
            WorkloadOp(
                stage=0, chunk=0, kind=OpKind.BACKWARD, partitions=(PartitionUse(partition=third, count=4),)
            ),
        ),
    )


@pytest.fixture
def windows() -> dict[tuple[str, int], list[Window]]:
    """Two rounds of each kernel."""
    return {
        ("a", CLOCK): [window("a", 0, 1.0, 100.0), window("a", 1, 1.1, 102.0)],
        ("b", CLOCK): [window("b", 0, 2.0, 300.0), window("b", 1, 2.2, 310.0)],
        ("c", CLOCK): [window("c", 0, 3.0, 500.0), window("c", 1, 3.1, 490.0)],
    }


def rows_at(
    workload: Workload, windows: dict[tuple[str, int], list[Window]], *clocks: int
) -> list[ProfileRow]:
    return rows_of(workload, windows, clocks or (CLOCK,), EnergySource.COUNTER, None)


def named(rows: list[ProfileRow]) -> dict[tuple[str, ...], ProfileRow]:
    return {
        tuple(str(one) for one in (row.level, row.op, row.partition, row.kernel) if one is not None): row
        for row in rows
    }


def test_an_op_is_the_sum_of_what_it_runs(
    two_partitions: Workload, windows: dict[tuple[str, int], list[Window]]
) -> None:
    assert op_parts(two_partitions.ops[0]) == [("a", 8), ("b", 3), ("c", 2)]
    rows = named(rows_at(two_partitions, windows))
    op = rows["op", "forward"]
    assert op.time_s == pytest.approx(8 * 1.05 + 3 * 2.1 + 2 * 3.05)
    assert op.energy_j == pytest.approx(8 * 101 + 3 * 305 + 2 * 495)
    assert op.time_std_s == pytest.approx(stdev([8 + 6 + 6, 8.8 + 6.6 + 6.2]))
    assert (op.samples, op.count, op.execution, op.invalid) == (2, 1, "sequential", None)
    assert (op.stage, op.chunk, op.sm_clock_mhz, op.energy_source) == (0, 0, CLOCK, EnergySource.COUNTER)
    partition = rows["partition", "forward", "p"]
    assert (partition.time_s, partition.energy_j) == pytest.approx((2 * 1.05 + 2.1, 2 * 101 + 305))
    assert (partition.count, partition.execution) == (3, "sequential")


def test_kernels_are_rows_of_their_own_for_every_stage(
    two_partitions: Workload, windows: dict[tuple[str, int], list[Window]]
) -> None:
    rows = rows_at(two_partitions, windows)
    kernels = [row for row in rows if row.level is Level.KERNEL]
    found = [(row.op, row.partition, row.kernel, row.count) for row in kernels]
    assert found == [
        ("forward", "p", "a", 2),
        ("forward", "p", "b", 1),
        ("forward", "q", "a", 1),
        ("forward", "q", "c", 1),
        ("backward", "r", "c", 1),
    ]
    assert {(row.stage, row.chunk, row.execution) for row in kernels} == {(None, None, None)}
    first = kernels[0]
    assert (first.time_s, first.energy_j) == pytest.approx((1.05, 101.0))  # of one run, whatever the count


def test_energies_carry_the_drift_and_times_only_where_power_limits_the_clock(
    two_partitions: Workload, windows: dict[tuple[str, int], list[Window]]
) -> None:
    windows["b", CLOCK] = [
        window("b", number, 2.0, 300.0, throttle=int(Throttle.SW_POWER_CAP)) for number in (0, 1)
    ]
    windows["c", CLOCK] = [window("c", number, 3.0, 500.0, throttle=0) for number in (0, 1)]
    rows = named(rows_at(two_partitions, windows))
    share = NORMAL_QUANTILE * DRIFT
    capped, free = rows["kernel", "forward", "p", "b"], rows["kernel", "backward", "r", "c"]
    assert half_width(capped.energy_std_j, 2) == pytest.approx(share / 2 * 300.0)
    assert half_width(capped.time_std_s, 2) == pytest.approx(share / 2 * 2.0)
    assert half_width(free.energy_std_j, 2) == pytest.approx(share * 500.0)
    assert free.time_std_s == 0.0


def test_a_kernel_without_a_usable_window_makes_what_runs_it_invalid_at_that_clock_only(
    two_partitions: Workload, windows: dict[tuple[str, int], list[Window]]
) -> None:
    for name in "abc":
        windows[name, 900] = [window(name, number, 5.0, 50.0, clock=900) for number in (0, 1)]
    windows["b", CLOCK] = [window("b", number, 2.0, 300.0, rejected="too hot") for number in (0, 1)]
    rows = rows_at(two_partitions, windows, CLOCK, 900)
    low = [row for row in rows if row.sm_clock_mhz == 900]
    assert all(row.invalid is None for row in low)
    high = named([row for row in rows if row.sm_clock_mhz == CLOCK])
    assert len(high) == len(low)
    assert {key: row.invalid for key, row in high.items() if row.invalid} == {
        ("kernel", "forward", "p", "b"): "too hot",
        ("partition", "forward", "p"): "b: too hot",
        ("op", "forward"): "b: too hot",
    }
    assert high["op", "forward"].energy_j == pytest.approx(8 * 101 + 3 * 300 + 2 * 495)  # to look at


def test_rejected_windows_do_not_count_where_others_are_usable(
    two_partitions: Workload, windows: dict[tuple[str, int], list[Window]]
) -> None:
    windows["c", CLOCK].append(window("c", 2, 99.0, 9e9, rejected="too hot"))
    row = named(rows_at(two_partitions, windows))["op", "backward"]
    assert (row.time_s, row.samples, row.invalid) == (pytest.approx(4 * 3.05), 2, None)


def test_nothing_is_written_for_what_gave_no_number(
    two_partitions: Workload, windows: dict[tuple[str, int], list[Window]]
) -> None:
    windows["b", CLOCK] = [window("b", 0, 2.0, None, rejected="no counter")]
    del windows["c", CLOCK]
    rows = named(rows_at(two_partitions, windows))
    assert set(rows) == {("kernel", "forward", "p", "a"), ("kernel", "forward", "q", "a")}


def test_every_kernel_without_a_number_is_named_with_its_clock_and_reason(
    two_partitions: Workload, windows: dict[tuple[str, int], list[Window]]
) -> None:
    """A number that must not be used is no gap: its row is there, and says why."""
    assert gaps_of(two_partitions, windows, (CLOCK,)) == []
    windows["a", 900] = [
        window("a", 0, 1.0, None, clock=900, rejected="no counter"),
        window("a", 1, 1.0, None, clock=900, rejected="it went back"),
    ]
    windows["b", 900] = [window("b", 0, 1.0, 9.0, clock=900, rejected="too hot")]
    windows["c", CLOCK].append(window("c", 2, 1.0, None, rejected="no counter"))
    assert gaps_of(two_partitions, windows, (CLOCK, 900)) == [
        "a at 900 MHz: it went back",
        "c at 900 MHz: not measured",
    ]


def test_a_row_tells_the_conditions_of_its_windows(
    two_partitions: Workload, windows: dict[tuple[str, int], list[Window]]
) -> None:
    def seen(number: int, clock: int, start_c: float, throttle: int) -> Window:
        return window(
            "c",
            number,
            3.0,
            500.0,
            achieved_sm_clock_mhz=clock,
            temperature_start_c=start_c,
            temperature_end_c=start_c + 2,
            throttle=throttle,
        )

    windows["c", CLOCK] = [seen(0, 1200, 50.0, 4), seen(1, 1185, 54.0, 0), seen(2, 1170, 58.0, 2)]
    row = named(rows_at(two_partitions, windows))["kernel", "backward", "r", "c"]
    assert (row.achieved_sm_clock_mhz, row.throttle) == (1185, 6)
    assert (row.temperature_start_c, row.temperature_end_c) == (54.0, 56.0)
    blind = named(rows_at(two_partitions, windows))["kernel", "forward", "p", "a"]
    assert (blind.achieved_sm_clock_mhz, blind.throttle, blind.temperature_end_c) == (None, None, None)


def test_variants_of_a_communication_are_rows_with_their_sms_and_belong_to_no_sum() -> None:
    partition = Partition(
        name="p", kernels=(KernelUse(kernel=A), KernelUse(kernel=all_reduce("all_reduce", None), count=2))
    )
    op = WorkloadOp(
        stage=0, chunk=0, kind=OpKind.FORWARD, partitions=(PartitionUse(partition=partition, count=1),)
    )
    variants = (
        all_reduce("all_reduce@4sms", 4),
        all_reduce("all_reduce@8sms", 8),
        all_reduce("other@4sms", 4),
    )
    workload = Workload(name="w", ops=(op,), stages=1, variants=variants)
    costs = {"a": 1.0, "all_reduce": 2.0, "all_reduce@4sms": 3.0, "all_reduce@8sms": 4.0, "other@4sms": 9.0}
    windows = {
        (name, CLOCK): [window(name, number, time_s, 100 * time_s) for number in (0, 1)]
        for name, time_s in costs.items()
    }
    rows = rows_at(workload, windows)
    kernels = [(row.kernel, row.comm_sms, row.time_s, row.count) for row in rows if row.level is Level.KERNEL]
    assert kernels == [
        ("a", None, 1.0, 1),
        ("all_reduce", None, 2.0, 2),
        ("all_reduce", 4, 3.0, 2),
        ("all_reduce", 8, 4.0, 2),
    ]
    assert [row.time_s for row in rows if row.level is Level.OP] == [5.0]


def test_rows_of_a_rank_carry_its_number(
    two_partitions: Workload, windows: dict[tuple[str, int], list[Window]]
) -> None:
    rows = rows_of(two_partitions, windows, (CLOCK,), EnergySource.POWER_INTEGRAL, 3)
    assert {(row.rank, row.energy_source) for row in rows} == {(3, EnergySource.POWER_INTEGRAL)}


HALF = Kernel(name="a", flops=5e8, memory_bytes=5e5)
OVERLAPPED = PartitionConfig(execution=Execution.OVERLAPPED, comm_launch="a", comm_sms=4)


@pytest.fixture
def cut() -> Workload:
    """A forward of a layer x 3 and an extra, whole or its layer cut in two x 6; a backward of the same layer."""
    talk = all_reduce("all_reduce", None)
    whole = Partition(name="p", kernels=(KernelUse(kernel=A), KernelUse(kernel=talk)))
    half = Partition(
        name="p",
        kernels=(KernelUse(kernel=HALF), KernelUse(kernel=talk)),
        launch_points=("a",),
        comm_sms=(4,),
    )
    extra = PartitionUse(partition=Partition(name="extra", kernels=(KernelUse(kernel=C),)))
    ops = tuple(
        WorkloadOp(
            stage=0,
            chunk=0,
            kind=kind,
            partitions=(PartitionUse(partition=whole, count=3), *extras),
            split=(PartitionUse(partition=half, count=6), *extras),
        )
        for kind, extras in ((OpKind.FORWARD, (extra,)), (OpKind.BACKWARD, ()))
    )
    return Workload(name="cut", ops=ops, stages=1)


def _costing(costs: dict[str, float]) -> dict[tuple[str, int], list[Window]]:
    return {
        (name, CLOCK): [window(name, number, time_s, 100 * time_s) for number in (0, 1)]
        for name, time_s in costs.items()
    }


KERNELS_S = {"a": 1.0, "all_reduce": 2.0, "c": 3.0}


def _partitions(rows: list[ProfileRow]) -> set[tuple[object, ...]]:
    return {
        (
            row.op,
            row.partition,
            row.nanobatches,
            row.execution,
            row.comm_launch,
            row.comm_sms,
            row.count,
            row.time_s,
        )
        for row in rows
        if row.level is Level.PARTITION
    }


def test_partitions_as_a_whole_stand_beside_the_sums_of_what_runs_whole(cut: Workload) -> None:
    """One configuration that is the same work in forward and backward is measured once and is a row of both."""
    workload = with_composites(cut)
    shared = {str(one.config): one.kernel.name for one in workload.composites if one.kind is OpKind.FORWARD}
    costs = KERNELS_S | {shared[str(PLAIN)]: 1.25, shared[str(OVERLAPPED)]: 0.75}
    rows = rows_at(workload, _costing(costs))
    assert _partitions(rows) == {
        ("forward", "extra", None, "sequential", None, None, 1, 3.0),
        *(
            row
            for kind in ("forward", "backward")
            for row in (
                (kind, "p", 1, "sequential", None, None, 3, 3.0),
                (kind, "p", 2, "sequential", None, None, 6, 1.25),
                (kind, "p", 2, "overlapped", "a", 4, 6, 0.75),
            )
        ),
    }
    ops = {row.op: (row.time_s, row.nanobatches) for row in rows if row.level is Level.OP}
    assert ops == {"forward": (3 * 3.0 + 3.0, None), "backward": (3 * 3.0, None)}


def test_configurations_that_were_not_tried_are_no_rows_and_no_gaps(cut: Workload) -> None:
    workload = with_composites(cut)
    assert (
        len({one.kernel.name for one in workload.composites}) == 3
    )  # plain; overlapped on 4 SMs, or as many as usual
    found = _costing(KERNELS_S)
    assert not any(row.nanobatches == 2 for row in rows_at(workload, found))
    assert gaps_of(workload, found, (CLOCK,)) == []
    name = workload.composites[0].kernel.name
    found[name, CLOCK] = [window(name, 0, 1.0, None, rejected="no counter")]
    assert gaps_of(workload, found, (CLOCK,)) == [f"{name} at {CLOCK} MHz: no counter"]


def test_without_partitions_as_a_whole_rows_say_nothing_of_parts(cut: Workload) -> None:
    rows = rows_at(cut, _costing(KERNELS_S))
    assert {row.nanobatches for row in rows} == {None}
    assert len([row for row in rows if row.level is Level.PARTITION]) == 3


def test_what_overlaps_uncut_is_one_way_with_its_sum() -> None:
    talk = all_reduce("all_reduce", None)
    partition = Partition(
        name="p", kernels=(KernelUse(kernel=A), KernelUse(kernel=talk)), launch_points=("a",), comm_sms=(4,)
    )
    other = Partition(name="q", kernels=(KernelUse(kernel=C),))
    uses = (PartitionUse(partition=partition, count=3), PartitionUse(partition=other))
    op = WorkloadOp(stage=0, chunk=0, kind=OpKind.FORWARD, partitions=uses)
    workload = with_composites(Workload(name="w", ops=(op,), stages=1))
    overlapped = composite(OpKind.FORWARD, partition, 1, OVERLAPPED).kernel.name
    assert _partitions(rows_at(workload, _costing(KERNELS_S | {overlapped: 2.0}))) == {
        ("forward", "p", 1, "sequential", None, None, 3, 3.0),
        ("forward", "p", 1, "overlapped", "a", 4, 3, 2.0),
        ("forward", "q", None, "sequential", None, None, 1, 3.0),
    }


def test_a_kernel_that_runs_again_in_its_partition_counts_as_often() -> None:
    uses = (KernelUse(kernel=A), KernelUse(kernel=C), KernelUse(kernel=A, count=2))
    partition = Partition(name="p", kernels=uses)
    op = WorkloadOp(stage=0, chunk=0, kind=OpKind.FORWARD, partitions=(PartitionUse(partition=partition),))
    rows = rows_at(Workload(name="w", ops=(op,), stages=1), _costing(KERNELS_S))
    assert {row.kernel: row.count for row in rows if row.level is Level.KERNEL} == {"a": 3, "c": 1}
    assert {row.time_s for row in rows if row.level is not Level.KERNEL} == {3 * 1.0 + 3.0}
