import math
import time
from statistics import fmean, stdev

import pytest

from energyopt.applier.devices.interface import Throttle
from energyopt.profiler.benches.interface import Bench
from energyopt.profiler.benches.simulated import SimulatedBench, open_simulated_bench
from energyopt.profiler.workloads.composites import composite
from energyopt.profiler.workloads.interface import (
    Collective,
    Communication,
    Kernel,
    KernelUse,
    Partition,
)
from energyopt.profiler.workloads.layers.communication import communication_kernel
from energyopt.schemas.errors import DeviceError, WorkloadError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import PLAIN, Execution, PartitionConfig

PRODUCT = Kernel(name="product", flops=2.0 * 4096**3, memory_bytes=6.0 * 4096**2, matrix=True)
A100 = "a100-sxm4-80gb"


def partition(kernel: Kernel = PRODUCT, *, overlaps: bool = True) -> Kernel:
    """A kernel and an all-reduce over 8 GPUs, as one."""
    talk = Communication(collective=Collective.ALL_REDUCE, message_bytes=1e8, group="tensor", ranks=8)
    kernels = (kernel, communication_kernel("tensor_all_reduce", talk, "bfloat16"))
    found = Partition(name="mlp", kernels=tuple(KernelUse(kernel=one) for one in kernels))
    config = PartitionConfig(execution=Execution.OVERLAPPED, comm_launch=kernel.name)
    return composite(OpKind.FORWARD, found, 2, config if overlaps else PLAIN).kernel


def prepared(
    name: str = A100, *, limit_w: float | None = None, seed: int = 0, noise: bool = True
) -> SimulatedBench:
    bench = open_simulated_bench(name, power_limit_w=limit_w, seed=seed, noise=noise)
    bench.prepare(PRODUCT)
    return bench


def lock(bench: SimulatedBench, clock: int) -> None:
    bench.device.lock_sm_clock(clock)
    bench.sleep(0.03)


def history(seed: int) -> list[float]:
    bench = prepared(seed=seed)
    found = []
    for clock in (1410, 900):
        lock(bench, clock)
        found += [bench.run(PRODUCT, 300), bench.device.power_w(), bench.device.energy_j()]
    return found


def test_an_unknown_gpu_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        DeviceError, match=r"no simulated GPU is called 'tpu'. there are a100-sxm4-40gb, .*, h200"
    ):
        open_simulated_bench("tpu")
    with pytest.raises(DeviceError, match=r"'h100': did you mean h100-sxm5-80gb\?"):
        open_simulated_bench("h100")


def test_a_kernel_beyond_the_memory_is_refused() -> None:
    """An A100 has 80 GB; the same kernel fits the H200's 141 GB."""
    kernel = Kernel(name="huge", flops=1e9, memory_bytes=100e9)
    with pytest.raises(WorkloadError, match="huge does not fit: it reads and writes 100 GB"):
        open_simulated_bench(A100).prepare(kernel)
    open_simulated_bench("h200").prepare(kernel)


@pytest.mark.parametrize("limit_w", [0.0, -1.0, 1.0, 10_000.0, math.nan])
def test_an_impossible_limit_is_refused(limit_w: float) -> None:
    with pytest.raises(DeviceError, match="power limit"):
        open_simulated_bench(A100, power_limit_w=limit_w)


def test_an_impossible_number_of_repeats_is_refused() -> None:
    with pytest.raises(WorkloadError, match="cannot run 0 times"):
        prepared().run(PRODUCT, 0)


def test_the_same_seed_gives_the_same_history() -> None:
    assert history(7) == history(7)
    assert history(7) != history(8)


def test_a_run_takes_and_draws_what_is_true() -> None:
    bench = prepared(noise=False)
    for clock in (1200, 900, 600):
        lock(bench, clock)
        bench.run(PRODUCT, 100_000)  # warm
        before_j, temperature_c = bench.device.energy_j(), bench.device.state().temperature_c
        assert isinstance(temperature_c, float)
        took_s = bench.run(PRODUCT, 20_000)
        time_s, energy_j = bench.true_cost(PRODUCT, clock, temperature_c)
        assert took_s == pytest.approx(20_000 * time_s, rel=1e-9)
        tick_j = 0.1 * energy_j / time_s
        assert bench.device.energy_j() - before_j == pytest.approx(
            20_000 * energy_j, rel=0.002, abs=2 * tick_j
        )


@pytest.mark.parametrize("overlaps", [True, False])
def test_a_partition_runs_as_one_kernel(overlaps: bool) -> None:
    bench, whole = prepared(noise=False), partition(overlaps=overlaps)
    lock(bench, 1200)
    bench.prepare(whole)
    time_s, energy_j = bench.true_cost(whole, 1200, 30.0)
    assert bench.run(whole, 2000) == pytest.approx(2000 * time_s, rel=1e-9)
    parts = [bench.true_cost(use.kernel, 1200, 30.0) for use in _parts(whole)]
    longer_s, in_turn_s = max(one for one, _ in parts), sum(one for one, _ in parts)
    if overlaps:
        assert (1 - 1e-12) * longer_s <= time_s < in_turn_s
        assert energy_j < sum(one for _, one in parts)
    else:
        assert (time_s, energy_j) == pytest.approx((in_turn_s, sum(one for _, one in parts)))


def _parts(whole: Kernel) -> list[KernelUse]:
    assert whole.overlap is not None
    assert whole.overlap.communication is not None
    return [*whole.overlap.compute, KernelUse(kernel=whole.overlap.communication)]


def test_a_partition_that_does_not_fit_is_named() -> None:
    huge = Kernel(name="huge", flops=1e9, memory_bytes=100e9)
    with pytest.raises(WorkloadError, match=r"^partition forward mlp/2 overlapped, before huge does not fit"):
        open_simulated_bench(A100).prepare(partition(huge))


def test_noise_is_unbiased_and_small() -> None:
    bench = prepared()
    lock(bench, 900)
    bench.run(PRODUCT, 100_000)
    true_s, true_j = bench.true_cost(PRODUCT, 900, bench.device.state().temperature_c)  # type: ignore[arg-type]
    times, energies = [], []
    for _ in range(60):
        before_j = bench.device.energy_j()
        times.append(bench.run(PRODUCT, 4000) / 4000)
        energies.append((bench.device.energy_j() - before_j) / 4000)
    assert fmean(times) == pytest.approx(true_s, rel=0.002)
    assert stdev(times) / true_s == pytest.approx(0.003, rel=0.35)
    assert fmean(energies) == pytest.approx(true_j, rel=0.01)
    assert 0.001 < stdev(energies) / true_j < 0.02


def test_a_capped_clock_is_visible_while_it_runs_and_in_the_truth() -> None:
    bench = prepared(limit_w=250.0, noise=False)
    lock(bench, 1410)
    seen = []

    def poll(now_s: float) -> float:
        seen.append(bench.device.state())
        return now_s + 0.05

    bench.run(PRODUCT, 4000, poll)
    assert all(state.throttle == Throttle.SW_POWER_CAP for state in seen)
    assert all(isinstance(state.sm_clock_mhz, int) and state.sm_clock_mhz < 1200 for state in seen)
    time_s, energy_j = bench.true_cost(PRODUCT, 1410, 45.0)
    assert energy_j / time_s == pytest.approx(250.0)
    assert time_s > prepared().true_cost(PRODUCT, 1410, 45.0)[0]


def test_polls_come_when_asked_and_never_before() -> None:
    for spend in ("run", "sleep", "wait"):
        bench = prepared(noise=False)
        asked_s = [bench.now_s()]
        called_s: list[float] = []

        def poll(
            now_s: float, bench: Bench = bench, asked: list[float] = asked_s, called: list[float] = called_s
        ) -> float:
            assert now_s == bench.now_s() >= asked[-1]
            called.append(now_s)
            asked.append(now_s + 0.037)
            return asked[-1]

        if spend == "run":
            bench.run(PRODUCT, 5000, poll)
        else:
            getattr(bench, spend)(2.0, poll)
        assert called_s == pytest.approx(asked_s[:-1])
        assert bench.now_s() - called_s[-1] <= 0.038


def test_a_poll_may_change_the_clock_and_may_come_back_at_once() -> None:
    bench = prepared(noise=False)
    lock(bench, 1410)
    fast_s = bench.run(PRODUCT, 1000)
    polls = 0

    def poll(now_s: float) -> float:
        nonlocal polls
        polls += 1
        if polls == 1:
            bench.device.lock_sm_clock(705)
        return now_s

    slow_s = bench.run(PRODUCT, 1000, poll)
    assert polls > 100
    assert 1.6 * fast_s < slow_s < 2.0 * fast_s


@pytest.mark.parametrize(("name", "published_w"), [(A100, 83.64), ("a40", 70.38)])
def test_waiting_draws_the_published_power(name: str, published_w: float) -> None:
    # Perseus (SOSP 2024), artifact: blocked in a P2P receive at the highest clock
    bench = open_simulated_bench(name)
    lock(bench, bench.device.supported_sm_clocks_mhz()[0])
    bench.wait(120.0)  # until the temperature stands
    before_j, started_s = bench.device.energy_j(), bench.now_s()
    bench.wait(60.0)
    assert bench.now_s() - started_s == pytest.approx(60.0)
    assert (bench.device.energy_j() - before_j) / 60.0 == pytest.approx(published_w, rel=0.01)


def test_waiting_draws_between_idling_and_working() -> None:
    bench = prepared()
    for clock in bench.device.supported_sm_clocks_mhz():
        time_s, energy_j = bench.true_cost(PRODUCT, clock, 50.0)
        idle_w, wait_w = bench.true_idle_power_w(clock, 50.0), bench.true_wait_power_w(clock, 50.0)
        assert idle_w < wait_w < energy_j / time_s


def test_a_window_with_forty_polls_takes_milliseconds() -> None:
    bench = prepared("a40")
    lock(bench, 1200)

    def poll(now_s: float) -> float:
        bench.device.state()
        bench.device.energy_j()
        bench.device.power_w()
        return now_s + 0.125

    def window_s() -> float:
        started_s = time.perf_counter()
        bench.run(PRODUCT, 3000, poll)
        return time.perf_counter() - started_s

    assert min(window_s() for _ in range(20)) < 0.02  # 2 ms on one core of a laptop
