"""The A100 and A40, with where each constant comes from.

Rates, clocks, cache widths and limits: NVIDIA's A100 and A40 datasheets and the GA100 and GA102 whitepapers; memory
and SM clocks as `nvidia-smi -q -d SUPPORTED_CLOCKS` lists them there. The matrix rates for float32 are TF32's.

`fitted`: to the stage profiles that Perseus (SOSP 2024, artifact) measured, GPT-3 175B on an A100-SXM4-80GB whose
limit is set to 500 W, and Bloom 176B on an A40; by `benchmarks/fit_simulation.py`, which says how far they are met.
The wait power is theirs too: 83.64 W and 70.38 W at the highest clock.
"""

from dataclasses import replace

from energyopt.applier.devices.interface import PowerMeaning
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

A100_80GB = GpuSpec(
    name="NVIDIA A100-SXM4-80GB",
    memory_bytes=80e9,
    memory_clock_mhz=1593,
    clocks=Clocks(lowest_mhz=210, highest_mhz=1410, boost_mhz=1410),
    throughput=Throughput(
        sms=108,
        matrix_flops={"bfloat16": 312e12, "float16": 312e12, "float32": 156e12},
        vector_flops=19.5e12,
        memory_bytes_per_s=2039e9,
        chip_bytes_per_cycle=5120.0,  # the cache's read width
        matrix_efficiency=0.8743,  # fitted
        vector_efficiency=0.7,  # assumed: no kernel here is bound by it
        memory_efficiency=0.8988,  # fitted
        reread_bytes_per_flop=0.003448,  # fitted; tiles of 128 x 256 read 0.012 from the cache, which catches most
        overlap=4.0,  # assumed: well overlapped
        tail_cycles=8000.0,  # assumed: about 6 us at 1410 MHz
        launch_s=1.5e-6,  # back-to-back launches of a stream; a figure of order
    ),
    link=Link(
        bytes_per_s=300e9,  # 12 NVLink 3 links of 25 GB/s a direction
        efficiency=0.78,  # NCCL tests reach a bus bandwidth of about 235 GB/s in an 8-GPU node
        bytes_per_cycle_per_sm=14.0,  # assumed: about 20 GB/s a channel at 1410 MHz
        default_sms=24,  # NCCL's channels in such a node
        latency_s=4e-6,  # of one step; a figure of order
    ),
    voltage=Voltage(
        lowest_v=0.75,  # assumed; only the ratio to the highest could be fitted
        highest_v=0.9372,  # fitted
        knee_mhz=1105.0,  # fitted
    ),
    power=Power(
        limit_w=400.0,
        board_w=33.46,  # fitted, from 30 +- 20 %
        leakage_w=25.89,  # fitted, from 25 +- 40 %
        active_w_per_ghz=57.51,  # fitted
        idle_share=0.1,  # assumed: clock gating; an idle board then draws 45 to 60 W
        wait_share=0.472,  # fitted to the wait power
        flop_j=1.553e-12,  # fitted
        vector_flop_j=9e-12,  # assumed: six times the matrix units'
        memory_byte_j=39.15e-12,  # fitted, from 45 +- 25 % (HBM2E at 3.9 pJ a bit, and the way through the chip)
        link_byte_j=80e-12,  # assumed: 10 pJ a bit for both ends
    ),
    thermal=Thermal(
        ambient_c=30.0,
        resistance_c_per_w=0.085,  # assumed: about 64 degrees at 400 W in an air-cooled server
        time_constant_s=15.0,  # assumed
        limit_c=85.0,
    ),
    sensors=Sensors(
        counter_tick_s=0.1,  # update period of the sensor: Yang et al., "Part-time Power Measurements" (SC 2024)
        power_meaning=PowerMeaning.INSTANT,  # NVML's manual: averaged on Ampere and later, except GA100
    ),
)

A100_40GB = replace(
    A100_80GB,
    name="NVIDIA A100-SXM4-40GB",
    memory_bytes=40e9,
    memory_clock_mhz=1215,
    throughput=replace(A100_80GB.throughput, memory_bytes_per_s=1555e9),
)

A40 = GpuSpec(
    name="NVIDIA A40",
    memory_bytes=48e9,
    memory_clock_mhz=7251,
    clocks=Clocks(lowest_mhz=210, highest_mhz=1740, boost_mhz=1740),
    throughput=Throughput(
        sms=84,
        matrix_flops={"bfloat16": 149.7e12, "float16": 149.7e12, "float32": 74.8e12},
        vector_flops=37.4e12,
        memory_bytes_per_s=696e9,
        chip_bytes_per_cycle=2688.0,  # assumed: 32 bytes an SM
        matrix_efficiency=0.951,  # fitted
        vector_efficiency=0.7,  # as the A100
        memory_efficiency=0.873,  # fitted
        reread_bytes_per_flop=0.004411,  # fitted; more than on the A100, whose cache is 40 MB and not 6 MB
        overlap=4.0,  # as the A100
        tail_cycles=8000.0,  # as the A100
        launch_s=1.5e-6,  # as the A100
    ),
    link=Link(
        bytes_per_s=31.5e9,  # PCIe 4 x16; NVLink bridges join pairs alone
        efficiency=0.7,  # assumed: through the host's memory
        bytes_per_cycle_per_sm=10.0,  # assumed
        default_sms=4,  # assumed: NCCL's channels over PCIe
        latency_s=8e-6,  # assumed
    ),
    voltage=Voltage(
        lowest_v=0.75,  # assumed; only the ratio to the highest could be fitted
        highest_v=0.9806,  # fitted
        knee_mhz=1155.0,  # fitted
    ),
    power=Power(
        limit_w=300.0,
        board_w=33.83,  # fitted, from 28 +- 20 %
        leakage_w=31.49,  # fitted, from 25 +- 40 %
        active_w_per_ghz=36.73,  # fitted
        idle_share=0.1,  # as the A100
        wait_share=0.2185,  # fitted to the wait power
        flop_j=1.834e-12,  # fitted; Samsung's 8 nm against the A100's 7 nm
        vector_flop_j=4e-12,  # assumed: keeps the 37.4 TFLOP/s below the limit
        memory_byte_j=102.6e-12,  # fitted, from 90 +- 25 % (GDDR6 at 7.5 pJ a bit, and the way through the chip)
        link_byte_j=80e-12,  # as the A100
    ),
    thermal=Thermal(
        ambient_c=30.0,
        resistance_c_per_w=0.15,  # assumed: about 75 degrees at 300 W, passively cooled
        time_constant_s=25.0,  # assumed
        limit_c=88.0,
    ),
    sensors=Sensors(
        counter_tick_s=0.1,  # as the A100
        power_meaning=PowerMeaning.AVERAGE_1S,  # NVML's manual: Ampere and later, except GA100
    ),
)
