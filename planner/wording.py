"""Numbers and foreign text as people read them; files and JSON keep full precision."""

MISSING = "-"
DECIMALS = {"J": 1, "s": 4, "W": 1, "MHz": 0}


def number(value: float | None, unit: str) -> str:
    """A quantity without its unit: energies to 0.1 J, times to 0.1 ms; `-` where there is none."""
    return MISSING if value is None else f"{value:z.{DECIMALS[unit]}f}"


def change(value: float | None, unit: str) -> str:
    """A difference with its sign, without its unit; one that is not zero is never shown as zero."""
    return MISSING if value is None else _signed(value, DECIMALS[unit])


def percent(ratio: float | None) -> str:
    """A ratio as a percentage with two decimals, such as `0.18 %`."""
    return MISSING if ratio is None else f"{100 * ratio:z.2f} %"


def percent_change(ratio: float | None) -> str:
    """A relative difference as a percentage with its sign; one that is not zero is never shown as zero."""
    return MISSING if ratio is None else f"{_signed(100 * ratio, 2)} %"


def relative(new: float | None, old: float | None) -> float | None:
    """(new - old) / |old|; None where either is absent or there is nothing to relate to."""
    if new is None or old is None or old == 0:
        return None
    return (new - old) / abs(old)


def gpus(count: int) -> str:
    """How many GPUs a total covers, such as `8 GPUs`."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def device(name: str, kind: str) -> str:
    """A GPU's name, and what stood behind its numbers where the name does not say so itself."""
    return name if f"({kind})" in name else f"{name} ({kind})"


def one_line(text: str) -> str:
    """Foreign text on one line: what is not printable is shown as its escape, all else as it stands."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _signed(value: float, decimals: int) -> str:
    rounded = f"{value:+z.{decimals}f}"
    return f"{value:+.1g}" if value and float(rounded) == 0 else rounded
