from dataclasses import replace

import pytest

from energyopt.profiler.simulation.gpus import GPUS
from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.simulation.timing import communication_s, kernel_time_s, sent_bytes
from energyopt.profiler.workloads.interface import Collective, Communication, Kernel
from energyopt.schemas.errors import WorkloadError


@pytest.mark.parametrize("name", GPUS)
def test_no_kernel_is_faster_at_a_lower_clock(
    name: str, product: Kernel, stream: Kernel, all_reduce: Kernel
) -> None:
    spec = GPUS[name]
    for kernel in (product, stream, all_reduce):
        times = [kernel_time_s(spec, kernel, clock) for clock in spec.clocks.supported_mhz()]
        assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("name", GPUS)
def test_no_kernel_beats_the_datasheet(name: str, product: Kernel, stream: Kernel) -> None:
    spec = GPUS[name]
    top = spec.clocks.highest_mhz
    rated = spec.throughput.matrix_flops["bfloat16"] * top / spec.clocks.boost_mhz
    assert 0.6 * rated < product.flops / kernel_time_s(spec, product, top) < rated
    memory = spec.throughput.memory_bytes_per_s
    assert 0.75 * memory < stream.memory_bytes / kernel_time_s(spec, stream, top) < memory


def test_halving_the_clock_doubles_computing_and_hardly_touches_moving(
    a100: GpuSpec, product: Kernel, stream: Kernel
) -> None:
    def slowdown(kernel: Kernel) -> float:
        return kernel_time_s(a100, kernel, 705) / kernel_time_s(a100, kernel, 1410)

    assert 1.8 < slowdown(product) <= 2.0
    assert 1.0 < slowdown(stream) < 1.15


def test_a_small_kernel_takes_at_least_its_launches(a100: GpuSpec) -> None:
    small = Kernel(name="small", flops=1.0, memory_bytes=8.0)
    one, four = (kernel_time_s(a100, replace(small, launches=count), 1410) for count in (1, 4))
    assert one > a100.throughput.launch_s
    assert four == pytest.approx(4 * one, rel=1e-3)


def test_a_small_product_reaches_less_of_the_rated_speed(a100: GpuSpec, product: Kernel) -> None:
    small = replace(product, flops=product.flops / 4096, memory_bytes=product.memory_bytes / 256)
    slower = kernel_time_s(a100, small, 1410) / kernel_time_s(a100, product, 1410) * 4096
    assert slower > 1.5


def test_a_type_without_matrix_units_is_refused_with_those_that_have_them(
    a100: GpuSpec, product: Kernel
) -> None:
    with pytest.raises(WorkloadError, match=r"kernel product is of type int7.*bfloat16, float16, float32"):
        kernel_time_s(a100, replace(product, dtype="int7"), 1410)


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        (Collective.ALL_REDUCE, 1.5),
        (Collective.ALL_GATHER, 0.75),
        (Collective.REDUCE_SCATTER, 0.75),
        (Collective.SEND_RECV, 1.0),
    ],
)
def test_bytes_sent_in_a_ring_of_four(collective: Collective, factor: float) -> None:
    # NCCL tests, PERFORMANCE.md: 2(n-1)/n, (n-1)/n and 1
    transfer = Communication(collective=collective, message_bytes=1e8, group="tensor", ranks=4)
    assert sent_bytes(transfer) == pytest.approx(factor * 1e8)


def test_more_sms_help_until_the_link_is_full(a100: GpuSpec, all_reduce: Kernel) -> None:
    transfer = all_reduce.communication
    assert transfer is not None
    seconds = [communication_s(a100, replace(transfer, sms=sms), 1410) for sms in (1, 2, 4, 8, 16, 32, 64)]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] / seconds[1] > 1.9  # SMs are the bottleneck
    assert seconds[-2] / seconds[-1] < 1.02  # the link is
    floor_s = sent_bytes(transfer) / a100.link.bytes_per_s
    assert min(seconds) > floor_s


def test_the_library_chooses_sms_where_none_are_asked_for(a100: GpuSpec, all_reduce: Kernel) -> None:
    transfer = all_reduce.communication
    assert transfer is not None
    chosen = replace(transfer, sms=a100.link.default_sms)
    assert communication_s(a100, transfer, 1410) == communication_s(a100, chosen, 1410)


def test_communication_depends_little_on_the_clock(a100: GpuSpec, all_reduce: Kernel) -> None:
    slowdown = kernel_time_s(a100, all_reduce, 870) / kernel_time_s(a100, all_reduce, 1410)
    assert 1.0 < slowdown < 1.15
