"""What overlapping costs: against limits, bounds, hand-solved cases and a simulation in small steps."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from itertools import product as combinations

import pytest

from energyopt.profiler.simulation.costs import kernel_costs, operate
from energyopt.profiler.simulation.gpus import GPUS
from energyopt.profiler.simulation.overlap import overlap_costs
from energyopt.profiler.simulation.power import activity_w, busy_share, kernel_w
from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.simulation.timing import kernel_time_s, memory_bytes_per_s, moved_bytes
from energyopt.profiler.workloads.interface import Collective, Communication, Kernel, KernelUse, Overlap
from energyopt.schemas.errors import WorkloadError

SMALL = Kernel(name="small", flops=4e9, memory_bytes=4e7, launches=3)
HALF = Kernel(name="half", flops=2e11, memory_bytes=6e8, matrix=True)  # as much computing as moving

Mix = list[tuple[Kernel, int]]


def exchange(message_bytes: float = 2e8, sms: int | None = None) -> Kernel:
    talk = Communication(
        collective=Collective.ALL_GATHER, message_bytes=message_bytes, group="tensor", ranks=8, sms=sms
    )
    return Kernel(name="exchange", flops=0.0, memory_bytes=1.125 * message_bytes, communication=talk)


def overlapped(kernels: Mix, talk: Kernel | None, launch: int | None) -> Overlap:
    uses = tuple(KernelUse(kernel=kernel, count=count) for kernel, count in kernels)
    return Overlap(compute=uses, communication=talk, launch=launch)


@pytest.fixture
def mixes(product: Kernel, stream: Kernel) -> list[Mix]:
    """Kernels of all sorts before and after the point of launch."""
    return [
        [(product, 1)],
        [(stream, 1)],
        [(SMALL, 40)],
        [(stream, 1), (SMALL, 7), (HALF, 2), (product, 1)],
        [(product, 1), (HALF, 3), (SMALL, 2), (stream, 2)],
    ]


@pytest.fixture
def cases(mixes: list[Mix]) -> list[Overlap]:
    """Those with messages that end early and late, on few SMs and most, launched wherever they can be."""
    return [
        overlapped(kernels, exchange(message_bytes, sms), launch)
        for kernels, message_bytes, sms in combinations(mixes, (1e6, 2e8, 4e9), (None, 1, 8, 60))
        for launch in range(len(kernels))
    ]


def alone_s(spec: GpuSpec, overlap: Overlap, clock: int) -> tuple[float, float]:
    """Times of the compute kernels and of the communication, each without the other."""
    assert overlap.communication is not None
    compute = math.fsum(use.count * kernel_time_s(spec, use.kernel, float(clock)) for use in overlap.compute)
    return compute, kernel_time_s(spec, overlap.communication, float(clock))


def at(values: Sequence[float], spec: GpuSpec, clock: int) -> float:
    return float(values[spec.clocks.supported_mhz().index(clock)])


@pytest.mark.parametrize("name", GPUS)
def test_first_and_by_itself_costs_the_sum_of_all_kernels(name: str, mixes: list[Mix]) -> None:
    spec = GPUS[name]
    for kernels, talk in combinations(mixes, (exchange(), None)):
        costs = kernel_costs(spec, replace(SMALL, overlap=overlapped(kernels, talk, None)))
        runs = [*kernels, *([] if talk is None else [(talk, 1)])]
        for index, clock in enumerate(costs.sm_clock_mhz):
            times = [(kernel, count, kernel_time_s(spec, kernel, clock)) for kernel, count in runs]
            time_s = math.fsum(count * one_s for _, count, one_s in times)
            energy_j = math.fsum(
                count * one_s * kernel_w(spec, kernel, clock, one_s) for kernel, count, one_s in times
            )
            assert 1 / costs.runs_per_s[index] == pytest.approx(time_s, rel=1e-12)
            assert costs.power_w[index] == pytest.approx(energy_j / time_s, rel=1e-12)


@pytest.mark.parametrize("name", GPUS)
def test_nothing_is_faster_than_its_longer_half_or_than_the_memory(name: str, cases: list[Overlap]) -> None:
    spec = GPUS[name]
    for overlap in cases:
        assert overlap.communication is not None
        moved = moved_bytes(spec, overlap.communication) + math.fsum(
            use.count * moved_bytes(spec, use.kernel) for use in overlap.compute
        )
        time_s = overlap_costs(spec, overlap).time_s.tolist()
        for clock in (spec.clocks.lowest_mhz, 900, spec.clocks.highest_mhz):
            longer_s = max(alone_s(spec, overlap, clock))
            assert at(time_s, spec, clock) >= (1 - 1e-12) * longer_s
            assert at(time_s, spec, clock) >= moved / memory_bytes_per_s(spec)


@pytest.mark.parametrize("name", GPUS)
def test_overlapping_loses_no_more_than_contention_for_memory_explains(
    name: str, cases: list[Overlap]
) -> None:
    """A compute kernel beside n SMs of communication loses n / SMs of its speed, which the communication wins.

    So only the communication's own slowing down can cost: by at most what both, alone, want of the memory.
    """
    spec = GPUS[name]
    for overlap in cases:
        time_s = overlap_costs(spec, overlap).time_s.tolist()
        for clock in (spec.clocks.lowest_mhz, 900, spec.clocks.highest_mhz):
            compute_s, talk_s = alone_s(spec, overlap, clock)
            allowed_s = talk_s * (_crowd(spec, overlap, clock) - 1)
            assert at(time_s, spec, clock) <= (1 + 1e-9) * (compute_s + talk_s + allowed_s)


def _crowd(spec: GpuSpec, overlap: Overlap, clock: int) -> float:
    assert overlap.communication is not None
    kernels = [overlap.communication, *(use.kernel for use in overlap.compute)]
    wanted = [
        moved_bytes(spec, kernel) / kernel_time_s(bare(spec), kernel, float(clock)) for kernel in kernels
    ]
    return max(1.0, (wanted[0] + max(wanted[1:])) / memory_bytes_per_s(spec))


def bare(spec: GpuSpec) -> GpuSpec:
    """Without launches and tails."""
    return replace(spec, throughput=replace(spec.throughput, launch_s=0.0, tail_cycles=0.0))


def silent(kernel: Kernel) -> Kernel:
    """Without any traffic."""
    return replace(kernel, memory_bytes=0.0, matrix=False)


@pytest.mark.parametrize("sms", [1, 8, 24, 60])
def test_computing_beside_s_of_all_sms_takes_the_share_s_of_the_transfer_longer(
    a100: GpuSpec, product: Kernel, sms: int
) -> None:
    """Without contention: T + C s/S where the transfer ends first; it needs T S/(S - s) where it ends last."""
    spec, kernel = bare(a100), silent(replace(product, flops=1e11))
    short, long = silent(exchange(2e7, sms)), silent(exchange(4e10, sms))
    for talk, clock in combinations((short, long), (600, 1410)):
        found = overlap_costs(spec, overlapped([(kernel, 1)], talk, 0))
        compute_s, talk_s = alone_s(spec, overlapped([(kernel, 1)], talk, 0), clock)
        if talk is short:
            assert at(found.time_s.tolist(), spec, clock) == pytest.approx(compute_s + talk_s * sms / 108)
            assert at(found.alone_s.tolist(), spec, clock) == pytest.approx(0.0, abs=1e-12 * talk_s)
        else:
            assert at(found.time_s.tolist(), spec, clock) == pytest.approx(talk_s)
            assert at(found.computing_s.tolist(), spec, clock) == pytest.approx(compute_s * 108 / (108 - sms))


def test_two_streams_through_one_memory_share_it_as_they_want(a100: GpuSpec) -> None:
    """A copy takes all it can get and the transfer d of it: while both run, both go at 1 / (1 + d)."""
    fast_chip = replace(a100.throughput, chip_bytes_per_cycle=1e9, overlap=200.0)
    spec = bare(replace(a100, throughput=fast_chip))
    copy, talk = Kernel(name="copy", flops=0.0, memory_bytes=4e9), exchange(1e9, 8)
    compute_s, talk_s = alone_s(spec, overlapped([(copy, 1)], talk, 0), 1410)
    share = moved_bytes(spec, talk) / talk_s / memory_bytes_per_s(spec)
    both_s = min(talk_s, compute_s) * (1 + share)
    found = overlap_costs(spec, overlapped([(copy, 1)], talk, 0))
    rest_s = max(talk_s, compute_s) - min(talk_s, compute_s)
    assert at(found.time_s.tolist(), spec, 1410) == pytest.approx(both_s + rest_s, rel=1e-3)


def test_a_transfer_on_all_sms_stops_the_computing(a100: GpuSpec, product: Kernel) -> None:
    every, most = (overlapped([(product, 1)], exchange(2e8, sms), 0) for sms in (108, 107))
    for clock in (600, 1410):
        in_turn_s = sum(alone_s(a100, every, clock))
        assert at(overlap_costs(a100, every).time_s.tolist(), a100, clock) == pytest.approx(in_turn_s)
        assert at(overlap_costs(a100, most).time_s.tolist(), a100, clock) == pytest.approx(
            in_turn_s, rel=1 / 107
        )


def test_an_empty_message_costs_at_most_its_own_latency(a100: GpuSpec, mixes: list[Mix]) -> None:
    for kernels in mixes:
        overlap = overlapped(kernels, exchange(0.0), 0)
        found = overlap_costs(a100, overlap).time_s.tolist()
        for clock in (600, 1410):
            compute_s, talk_s = alone_s(a100, overlap, clock)
            assert talk_s < 5e-5
            assert compute_s <= at(found, a100, clock) <= compute_s + talk_s


@pytest.mark.parametrize("message_bytes", [1e3, 2e8])
def test_kernels_that_do_nothing_hide_their_launches_behind_the_transfer(
    a100: GpuSpec, message_bytes: float
) -> None:
    nothing = Kernel(name="nothing", flops=0.0, memory_bytes=0.0)
    overlap = overlapped([(nothing, 5)], exchange(message_bytes), 0)
    for clock in (600, 1410):
        longer_s = max(alone_s(a100, overlap, clock))
        assert at(overlap_costs(a100, overlap).time_s.tolist(), a100, clock) == pytest.approx(longer_s)


def test_kernels_before_the_launch_run_as_if_there_were_none(a100: GpuSpec, mixes: list[Mix]) -> None:
    """What is launched before the last kernel overlaps it alone."""
    kernels, talk = mixes[3], exchange()
    whole = overlap_costs(a100, overlapped(kernels, talk, 3)).time_s
    last = overlap_costs(a100, overlapped(kernels[3:], talk, 0)).time_s
    before = overlap_costs(a100, overlapped(kernels[:3], None, None)).time_s
    assert whole.tolist() == pytest.approx((before + last).tolist(), rel=1e-12)


def test_counting_a_kernel_is_writing_it_out(a100: GpuSpec, mixes: list[Mix]) -> None:
    for kernels in mixes:
        long = [(kernel, 1) for kernel, count in kernels for _ in range(count)]
        counted, written = (overlap_costs(a100, overlapped(one, exchange(), 0)) for one in (kernels, long))
        assert counted.power_w.tolist() == pytest.approx(written.power_w.tolist(), rel=1e-12)
        assert counted.time_s.tolist() == pytest.approx(written.time_s.tolist(), rel=1e-12)


def test_a_simulation_in_small_steps_gives_the_same(a100: GpuSpec, mixes: list[Mix]) -> None:
    for kernels, message_bytes in combinations(mixes[2:], (4e7, 2e8, 1e9)):
        overlap = overlapped(kernels, exchange(message_bytes, 12), 0)
        found = at(overlap_costs(a100, overlap).time_s.tolist(), a100, 1200)
        assert found == pytest.approx(_in_steps(a100, overlap, 1200), rel=1e-3)


def _in_steps(spec: GpuSpec, overlap: Overlap, clock: int) -> float:
    """Time of a partition by the rules, 100 000 steps long."""
    talk, rates = overlap.communication, spec.throughput
    assert talk is not None
    talk_s = kernel_time_s(spec, talk, float(clock))
    step_s, steps, sent = sum(alone_s(spec, overlap, clock)) / 100_000, 0, 0.0
    for kernel in [use.kernel for use in overlap.compute for _ in range(use.count)]:
        beside, alone = (_speeds(spec, kernel, one, clock) for one in (talk, None))
        done = idle_s = 0.0
        while done < 1:
            speed, slow = beside if sent < 1 else alone
            done, sent, steps = done + step_s * speed, sent + step_s / talk_s / slow, steps + 1
        while idle_s < kernel.launches * (rates.launch_s + rates.tail_cycles / clock / 1e6):
            idle_s, sent, steps = idle_s + step_s, sent + step_s / talk_s, steps + 1
    return step_s * steps + talk_s * max(0.0, 1 - sent)


def _speeds(spec: GpuSpec, kernel: Kernel, talk: Kernel | None, clock: int) -> tuple[float, float]:
    """Progress of a kernel's work a second, and how many times slower the communication is."""
    rates, memory = spec.throughput, memory_bytes_per_s(spec)
    share, used = 1.0, 0.0
    if talk is not None:
        assert talk.communication is not None
        assert talk.communication.sms is not None
        share = 1 - talk.communication.sms / rates.sms
        used = moved_bytes(spec, talk) / kernel_time_s(spec, talk, float(clock))
    flops = rates.matrix_flops["bfloat16"] * rates.matrix_efficiency
    if not kernel.matrix:
        flops = rates.vector_flops * rates.vector_efficiency
    compute_s = kernel.flops / (flops * share * clock / spec.clocks.boost_mhz)

    def takes_s(bandwidth: float) -> float:
        chip = rates.chip_bytes_per_cycle * clock * 1e6 * share
        move_s = moved_bytes(spec, kernel) * math.hypot(1 / bandwidth, 1 / chip)
        return float((compute_s**rates.overlap + move_s**rates.overlap) ** (1 / rates.overlap))

    wanted = moved_bytes(spec, kernel) / takes_s(memory)
    if wanted + used <= memory:
        return 1 / takes_s(memory - used), 1.0
    return 1 / takes_s(memory * wanted / (wanted + used)), (wanted + used) / memory


def test_overlapping_saves_what_the_board_draws_meanwhile_and_no_work(
    a100: GpuSpec, mixes: list[Mix]
) -> None:
    """Work and traffic stay; board, clock tree and SMs that wait draw for a shorter time."""
    for kernels, message_bytes in combinations(mixes, (4e7, 1e9)):
        talk = exchange(message_bytes)
        both = overlap_costs(a100, overlapped(kernels, talk, 0))
        turns = overlap_costs(a100, overlapped(kernels, talk, None))
        saved_j = (turns.power_w * turns.time_s - both.power_w * both.time_s).tolist()
        computing_s, waiting_s = both.computing_s - turns.computing_s, both.alone_s - turns.alone_s
        for index, clock in enumerate(a100.clocks.supported_mhz()):
            standing_j = activity_w(a100, clock, 1.0) * computing_s[index]
            standing_j += activity_w(a100, clock, busy_share(a100, talk)) * waiting_s[index]
            assert saved_j[index] == pytest.approx(-standing_j, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", GPUS)
def test_power_rises_and_time_falls_with_the_clock(name: str, cases: list[Overlap]) -> None:
    """But for a little where a faster transfer crowds a copy out of the memory."""
    for overlap in cases:
        costs = kernel_costs(GPUS[name], replace(SMALL, overlap=overlap))
        total_w = [one + leak for one, leak in zip(costs.power_w, costs.leakage_w, strict=True)]
        assert total_w == sorted(total_w)
        assert all(low < 1.002 * high for low, high in pairwise(costs.runs_per_s))


def test_a_limit_on_power_holds_the_mean_of_the_partition(a100: GpuSpec, product: Kernel) -> None:
    costs = kernel_costs(a100, replace(SMALL, overlap=overlapped([(product, 3)], exchange(), 1)))
    found = operate(costs, len(costs.power_w) - 1, 250.0, 1.0)
    assert found.capped
    assert found.power_w == pytest.approx(250.0)
    assert found.runs_per_s < costs.runs_per_s[-1]


def test_a_type_that_the_gpu_lacks_is_refused_by_the_kernel_s_name(a100: GpuSpec, product: Kernel) -> None:
    odd = replace(product, dtype="int7")
    with pytest.raises(WorkloadError, match="kernel product is of type int7"):
        overlap_costs(a100, overlapped([(odd, 1)], exchange(), 0))


def test_a_partition_of_ten_kernels_takes_milliseconds(a100: GpuSpec, product: Kernel) -> None:
    overlap = overlapped([(product, 1), (SMALL, 1)] * 5, exchange(), 0)

    def took_s(cost: Callable[[GpuSpec, Overlap], object]) -> float:
        started_s = time.perf_counter()
        cost(a100, overlap)
        return time.perf_counter() - started_s

    assert min(took_s(overlap_costs) for _ in range(20)) < 0.01  # about 1 ms
