"""Print the example's stage profile: a made-up GPU, from a formula, and not a measurement of anything.

An operation has a part that waits for memory and a part that scales with the clock; the board draws a constant
power plus a part that grows with clock x voltage squared, and the voltage rises above a knee:

    time(f)  = t_top (m + (1 - m) f_top / f)
    power(f) = p_static + p_dynamic (f / f_top) (v(f) / v(f_top))^2
    v(f)     = max(0.75, 0.75 + 0.45 (f - knee) / knee)

Usage: python examples/synthetic_profile.py > examples/synthetic-4-stages.csv
"""

TOP_MHZ, LOWEST_MHZ, STEP_MHZ, KNEE_MHZ = 1500, 900, 30, 1050
STATIC_W, DYNAMIC_W = 95.0, 265.0
MEMORY_SHARE = {"forward": 0.18, "backward": 0.12}
TOP_TIME_S = {"forward": (0.052, 0.050, 0.050, 0.057), "backward": (0.101, 0.100, 0.100, 0.109)}


def voltage(clock_mhz: int) -> float:
    """Core voltage at a clock, V."""
    return max(0.75, 0.75 + 0.45 * (clock_mhz - KNEE_MHZ) / KNEE_MHZ)


def main() -> None:
    """Print one row for each stage, instruction and clock."""
    print("stage,instruction,frequency,time,energy")
    for stage in range(4):
        for instruction, times_s in TOP_TIME_S.items():
            for clock_mhz in range(TOP_MHZ, LOWEST_MHZ - 1, -STEP_MHZ):
                memory = MEMORY_SHARE[instruction]
                time_s = times_s[stage] * (memory + (1 - memory) * TOP_MHZ / clock_mhz)
                swing = (clock_mhz / TOP_MHZ) * (voltage(clock_mhz) / voltage(TOP_MHZ)) ** 2
                energy_j = (STATIC_W + DYNAMIC_W * swing) * time_s
                print(f"{stage},{instruction},{clock_mhz},{time_s:.6f},{energy_j:.5f}")


if __name__ == "__main__":
    main()
