"""The H100 and H200, with where each constant comes from.

Rates and limits: NVIDIA's H100 and H200 datasheets and the GH100 whitepaper, without sparsity; the rated
989 TFLOP/s are 132 SMs x 4096 FLOP at 1830 MHz, while the highest clock is 1980 MHz. The matrix rate for float32 is
TF32's.

No stage profile of these boards was at hand. What is marked `chosen` was set so that a large bfloat16 product runs
into the 700 W at about 1.6 GHz and 750 TFLOP/s, and an idle board draws about 70 W (H100) or 80 W (H200), as widely
reported: plausible, but not validated.
"""

from dataclasses import replace

from energyopt.applier.devices.interface import PowerMeaning
from energyopt.profiler.simulation.ampere import A100_80GB
from energyopt.profiler.simulation.spec import (
    Clocks,
    GpuSpec,
    Link,
    Power,
    Sensors,
    Thermal,
    Throughput,
    Voltage,
)

H100 = GpuSpec(
    name="NVIDIA H100 80GB HBM3",
    memory_bytes=80e9,
    memory_clock_mhz=2619,
    clocks=Clocks(lowest_mhz=345, highest_mhz=1980, boost_mhz=1830),
    throughput=Throughput(
        sms=132,
        matrix_flops={"bfloat16": 989.4e12, "float16": 989.4e12, "float32": 494.7e12},
        vector_flops=66.9e12,
        memory_bytes_per_s=3352e9,
        chip_bytes_per_cycle=5120.0,  # as the A100: no width is published
        matrix_efficiency=0.87,  # as the A100
        vector_efficiency=0.7,
        memory_efficiency=0.92,
        reread_bytes_per_flop=0.0022,  # chosen: larger tiles than on the A100
        overlap=A100_80GB.throughput.overlap,
        tail_cycles=A100_80GB.throughput.tail_cycles,
        launch_s=1.5e-6,
    ),
    link=Link(
        bytes_per_s=450e9,  # 18 NVLink 4 links of 25 GB/s a direction
        efficiency=0.8,  # NCCL tests reach a bus bandwidth of about 360 GB/s in an 8-GPU node, without NVLS
        bytes_per_cycle_per_sm=14.0,  # as the A100
        default_sms=24,
        latency_s=4e-6,
    ),
    voltage=Voltage(lowest_v=0.7, highest_v=1.05, knee_mhz=1200.0),  # chosen, in the shape of the A100's
    power=Power(
        limit_w=700.0,
        board_w=54.0,  # chosen
        leakage_w=45.0,  # chosen
        active_w_per_ghz=90.0,  # chosen: the A100's per SM, on a finer process
        idle_share=0.1,
        wait_share=0.3,  # chosen: 150 W or so in a blocked collective
        flop_j=0.75e-12,  # chosen
        vector_flop_j=4.5e-12,  # assumed: six times the matrix units'
        memory_byte_j=45e-12,  # chosen: HBM3 at 3.5 pJ a bit or so, and the way through the chip
        link_byte_j=80e-12,  # as the A100
    ),
    thermal=Thermal(
        ambient_c=30.0,
        resistance_c_per_w=0.055,  # assumed: about 68 degrees at 700 W
        time_constant_s=15.0,
        limit_c=85.0,
    ),
    sensors=Sensors(
        counter_tick_s=0.1,  # update period of the sensor: Yang et al., "Part-time Power Measurements" (SC 2024)
        power_meaning=PowerMeaning.AVERAGE_1S,  # NVML's manual: Ampere and later, except GA100
    ),
)

H200 = replace(
    H100,
    name="NVIDIA H200",
    memory_bytes=141e9,
    memory_clock_mhz=3201,
    throughput=replace(H100.throughput, memory_bytes_per_s=4800e9),
    power=replace(H100.power, board_w=64.0),  # chosen: six stacks of memory and not five
)
