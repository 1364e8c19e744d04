from dataclasses import replace

import pytest

from energyopt.profiler.simulation.gpus import GPUS
from energyopt.profiler.simulation.power import (
    activity_w,
    kernel_w,
    leakage_w,
    traffic_j,
    voltage_v,
    work_j,
)
from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.simulation.timing import kernel_time_s
from energyopt.profiler.workloads.interface import Kernel


@pytest.mark.parametrize("name", GPUS)
def test_voltage_is_flat_up_to_the_knee_and_physical_everywhere(name: str) -> None:
    spec = GPUS[name]
    clocks = spec.clocks.supported_mhz()
    volts = [voltage_v(spec, clock) for clock in clocks]
    assert volts == sorted(volts)
    assert {v for v, clock in zip(volts, clocks, strict=True) if clock <= spec.voltage.knee_mhz} == {volts[0]}
    assert 0.65 <= volts[0] < volts[-1] <= 1.1
    assert volts[-1] == pytest.approx(spec.voltage.highest_v)


@pytest.mark.parametrize("name", GPUS)
def test_power_rises_with_the_clock_whatever_runs(
    name: str, product: Kernel, stream: Kernel, all_reduce: Kernel
) -> None:
    spec = GPUS[name]
    for kernel in (product, stream, all_reduce):
        watts = [
            kernel_w(spec, kernel, clock, kernel_time_s(spec, kernel, clock)) + leakage_w(spec, clock)
            for clock in spec.clocks.supported_mhz()
        ]
        assert watts == sorted(watts)


@pytest.mark.parametrize("name", GPUS)
def test_an_idle_board_draws_a_plausible_share_of_its_limit(name: str) -> None:
    spec = GPUS[name]
    lowest = spec.clocks.lowest_mhz
    idle_w = activity_w(spec, lowest, spec.power.idle_share) + leakage_w(spec, lowest)
    assert 0.08 * spec.power.limit_w < idle_w < 0.2 * spec.power.limit_w


def test_traffic_costs_the_same_at_every_clock_and_work_does_not(a100: GpuSpec, product: Kernel) -> None:
    def dynamic_j(kernel: Kernel, clock: int) -> float:
        return kernel_w(a100, kernel, clock, 1.0) - kernel_w(a100, idle, clock, 1.0)

    idle = Kernel(name="nothing", flops=0.0, memory_bytes=0.0)
    moving = Kernel(name="moving", flops=0.0, memory_bytes=1e12)
    assert dynamic_j(moving, 600) == pytest.approx(dynamic_j(moving, 1410))
    assert dynamic_j(moving, 600) == pytest.approx(1e12 * a100.power.memory_byte_j)
    ratio = (dynamic_j(product, 1410) - traffic_j(a100, product)) / (
        dynamic_j(product, 600) - traffic_j(a100, product)
    )
    assert ratio == pytest.approx((a100.voltage.highest_v / a100.voltage.lowest_v) ** 2)


def test_a_slower_data_type_draws_the_same_a_cycle(a100: GpuSpec, product: Kernel) -> None:
    # TF32 has half the rate of bfloat16 on the A100: half the FLOPs, in the same cycles
    half = replace(product, dtype="float32", flops=product.flops / 2)
    assert work_j(a100, half) == pytest.approx(work_j(a100, product))
