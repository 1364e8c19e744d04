"""What all pictures share: their look, their colours, and how they become files.

Figures are made and saved without pyplot, so nothing stays behind in matplotlib's global state.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from energyopt.planner.wording import one_line
from energyopt.schemas.errors import RequestError
from energyopt.schemas.files import write_atomically

# Okabe and Ito's palette: told apart with every common kind of colour blindness
BLUE, ORANGE, VERMILLION, GREEN, BLACK, GREY = (
    "#0072B2",
    "#E69F00",
    "#D55E00",
    "#009E73",
    "#000000",
    "#6E6E6E",
)
WAITING = "#E3E3E3"

DPI = 200
CHARACTER_PT = 6.3  # of a title; what a character takes on average, rounded up
METADATA: dict[str, dict[str, Any]] = {  # nothing that differs between two runs
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "svg.hashsalt": "energyopt",
    "text.usetex": False,
    "savefig.bbox": None,
}


@contextmanager
def paper_style() -> Iterator[None]:
    """The look of every picture, whatever the user's matplotlibrc says; undone at the end."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a box will do
        yield


def new_figure(width_in: float, height_in: float) -> Figure:
    """An empty figure that lays itself out."""
    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def check_suffix(path: Path) -> str:
    """The kind of picture that a file name asks for.

    Raises:
        RequestError: none that can be written.
    """
    suffix = path.suffix.lower()
    if suffix not in METADATA:
        raise RequestError(
            f"{path}: pictures are written as {', '.join(METADATA)}; give one of these suffixes"
        )
    return suffix


def save(figure: Figure, path: Path) -> None:
    """Write a figure atomically; equal figures give equal bytes.

    Raises:
        RequestError: a suffix other than .png, .svg or .pdf.
        EnergyoptError: the file cannot be written.
    """
    suffix = check_suffix(path)

    def write(temporary: Path) -> None:
        figure.savefig(temporary, format=suffix[1:], dpi=DPI, metadata=METADATA[suffix])

    with paper_style():
        write_atomically(path, write)


def write_title(figure: Figure, axes: Axes, *lines: str) -> None:
    """Draw foreign text as it stands above the axes, long lines wrapped; `$` starts no formula."""
    wide = int(figure.get_figwidth() * 72 / CHARACTER_PT)
    wrapped = [part for line in lines for part in wrap(one_line(line), wide)]
    axes.set_title("\n".join(wrapped), loc="left", parse_math=False)
