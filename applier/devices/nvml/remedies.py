"""What a user can do about each thing that does not work."""

RIGHTS = (
    "setting clocks needs root or CAP_SYS_ADMIN: run with sudo, or give docker --cap-add SYS_ADMIN, or have an "
    "administrator allow application clocks (nvidia-smi -acp UNRESTRICTED), or ask the cluster's administrators "
    "for a clock-control prolog, or use --clocks current to measure at the current clock alone"
)
MIG = (
    "clocks belong to the whole board, which MIG shares between jobs: have MIG turned off (nvidia-smi -mig 0), or "
    "use --clocks current to measure at the current clock alone"
)
NO_KNOB = (
    "locked clocks need a Volta or newer GPU and driver 415 or newer; use --clocks current to measure at the "
    "current clock alone"
)
OTHER = (
    "look into the kernel log (dmesg) for NVRM messages; nvidia-smi -rgc, as root, takes a lock off by hand; use "
    "--clocks current to measure at the current clock alone"
)
ENERGY_COUNTER = (
    "energy is integrated from power readings instead, which is less exact for short kernels (GPUs have counters "
    "from Volta on)"
)
POWER = "energy is taken from the counter alone; power readings need a data-centre or workstation GPU"
SM_CLOCK = "whether a clock is held cannot be checked; update the driver"
THROTTLE_REASONS = (
    "throttled measurements cannot be told from others; keep the GPU cool, or update the driver"
)
TEMPERATURE = "drift from warming up cannot be seen; warm the GPU up before a profile"
SUPPORTED_CLOCKS = (
    "clocks cannot be chosen from a list: give those to measure with --clocks, in steps of 15 MHz"
)

BY_FIELD = {
    "energy_counter": ENERGY_COUNTER,
    "power": POWER,
    "sm_clock": SM_CLOCK,
    "throttle_reasons": THROTTLE_REASONS,
    "temperature": TEMPERATURE,
    "supported_clocks": SUPPORTED_CLOCKS,
}
"""By field of `Capabilities`; what to do about `set_clocks` depends on why it does not work."""
