"""The 95 % confidence interval of a mean, as every file and table of this tool means it."""

import math
from functools import lru_cache

CONFIDENCE = 0.95


def half_width(std: float | None, samples: int | None) -> float | None:
    """Half the 95 % confidence interval of a mean, in its unit; None where fewer than two windows were taken."""
    if std is None or samples is None or samples < 2:
        return None
    return student_quantile(samples - 1) * std / math.sqrt(samples)


@lru_cache
def student_quantile(degrees: int) -> float:
    """The two-sided 95 % quantile of Student's t distribution."""
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    return float(stdtrit(degrees, 0.5 + CONFIDENCE / 2))
