"""Array types that the planner's modules share."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Choices: TypeAlias = NDArray[np.int16]  # indices into fronts


def spread(values: Floats, most: int) -> Floats:
    """At most so many of some values, each once, rising, evenly among them: the least first."""
    values = np.unique(values)
    return values[np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(np.int64))]
