"""What is known of a GPU: the constants of the model that `timing`, `power` and `thermal` compute with."""

from collections.abc import Mapping
from dataclasses import dataclass

from energyopt.applier.devices.interface import PowerMeaning


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The SM clocks that can be asked for, and how long it takes until a new one holds.

    boost_mhz: the clock at which the vendor states its FLOP/s.
    """

    lowest_mhz: int
    highest_mhz: int
    boost_mhz: int
    step_mhz: int = 15
    latency_s: tuple[float, float] = (0.005, 0.025)

    def supported_mhz(self) -> tuple[int, ...]:
        """Lowest first."""
        return tuple(range(self.lowest_mhz, self.highest_mhz + 1, self.step_mhz))


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """How fast it computes and moves data.

    matrix_flops, vector_flops: dense FLOP/s at the boost clock, by data type and for any type.
    matrix_efficiency, vector_efficiency, memory_efficiency: the share of the rated figure that long, tuned kernels
        reach.
    reread_bytes_per_flop: traffic with GPU memory that a matrix product has beyond reading its inputs once, because
        the tiles in flight do not fit into the cache.
    chip_bytes_per_cycle: what SMs and cache move per SM clock; it makes streaming slower at low clocks.
    overlap: exponent of the norm that joins computing and moving: 1 adds them up, infinity overlaps them wholly.
    tail_cycles: SM clocks lost at the start and end of each launch, when the SMs are not all busy.
    launch_s: gap between two launches of a queue that is full.
    """

    sms: int
    matrix_flops: Mapping[str, float]
    vector_flops: float
    memory_bytes_per_s: float
    chip_bytes_per_cycle: float
    matrix_efficiency: float
    vector_efficiency: float
    memory_efficiency: float
    reread_bytes_per_flop: float
    overlap: float
    tail_cycles: float
    launch_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How GPUs of one node reach each other.

    bytes_per_s: one direction, per GPU.
    efficiency: the share that collectives of large messages reach.
    bytes_per_cycle_per_sm: what one SM pushes through; it limits a collective with few SMs.
    default_sms: how many the library takes by itself.
    latency_s: time of one step of a ring, whatever its size.
    """

    bytes_per_s: float
    efficiency: float
    bytes_per_cycle_per_sm: float
    default_sms: int
    latency_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Voltage:
    """Supply voltage of the SMs: flat up to the knee, then a straight line to its highest at the highest clock."""

    lowest_v: float
    highest_v: float
    knee_mhz: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """What draws power. Figures at one volt go with the square of the voltage.

    board_w: memory standing by, regulators, links: always there.
    leakage_w: leakage of the chip at 1 V and at the reference temperature of `thermal`.
    active_w_per_ghz: clock tree and schedulers of a chip whose SMs are all busy, at 1 V.
    idle_share, wait_share: the share of that which an idle chip and one that spins in a blocked receive draw.
    flop_j: energy of one matrix FLOP at 1 V, in 16 bits.
    vector_flop_j: energy of one FLOP outside the matrix units at 1 V.
    memory_byte_j: energy to move one byte between memory and chip; the memory has a voltage and clock of its own.
    link_byte_j: energy to move one byte to another GPU.
    """

    limit_w: float
    board_w: float
    leakage_w: float
    active_w_per_ghz: float
    idle_share: float
    wait_share: float
    flop_j: float
    vector_flop_j: float
    memory_byte_j: float
    link_byte_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Thermal:
    """The chip's temperature: one resistance to the air and one heat capacity.

    limit_c: where the board begins to slow itself down.
    """

    ambient_c: float
    resistance_c_per_w: float
    time_constant_s: float
    limit_c: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensors:
    """How the driver's readings come about.

    counter_tick_s: the energy counter advances this often.
    """

    counter_tick_s: float
    power_meaning: PowerMeaning


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """One GPU; `gpus` holds those that exist."""

    name: str
    memory_bytes: float
    memory_clock_mhz: int
    clocks: Clocks
    throughput: Throughput
    link: Link
    voltage: Voltage
    power: Power
    thermal: Thermal
    sensors: Sensors
