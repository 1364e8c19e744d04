"""The names of the reasons why a GPU ran below the clock asked for: NVML's bits (nvmlClocksEventReason*)."""

REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal limit",
    0x40: "hardware thermal limit",
    0x80: "hardware power brake",
    0x100: "display clock",
}
_EXPECTED = 0x1 | 0x2  # an idle moment, and the very setting that was asked for


def throttle_names(bits: int) -> tuple[str, ...]:
    """The reasons among the bits that tell of less than was asked for."""
    known = [name for bit, name in REASONS.items() if bits & bit and not bit & _EXPECTED]
    rest = bits & ~sum(REASONS)
    return (*known, *((f"bits {rest:#x}",) if rest else ()))
