"""The pictures that `show` draws of a frontier."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from energyopt.cli import output
from energyopt.cli.targets import refuse_overwrite, same_file
from energyopt.schemas.errors import RequestError

if TYPE_CHECKING:
    from energyopt.schemas.frontier import Frontier


class Pictures(NamedTuple):
    """What to draw of a frontier."""

    plot: Path | None
    timeline: tuple[str, Path] | None
    power: tuple[str, Path] | None
    gpus_per_node: int | None

    def images(self) -> list[tuple[str, Path]]:
        """The flags that were given and the files that they name."""
        found = {
            "--plot": self.plot,
            "--timeline": self.timeline and self.timeline[1],
            "--power": self.power and self.power[1],
        }
        return [(flag, image) for flag, image in found.items() if image is not None]


def check_targets(file: Path, pictures: Pictures) -> None:
    """Refuse pictures that would replace the file that is shown, or one another.

    Raises:
        RequestError: names the flags.
    """
    images = pictures.images()
    for index, (flag, image) in enumerate(images):
        refuse_overwrite(image, file, flag=flag)
        for other, earlier in images[:index]:
            if same_file(earlier, image):
                raise RequestError(f"{other} and {flag} would both write {earlier}; give two files")


def draw(frontier: "Frontier", pictures: Pictures) -> None:
    """Draw what is wanted of a frontier; the whole request is checked before the first picture.

    Raises:
        RequestError: no such point, or no such kind of picture.
    """
    from energyopt.planner.plots.canvas import check_suffix, save
    from energyopt.planner.plots.frontier_plot import draw_frontier
    from energyopt.planner.plots.power_plot import draw_power
    from energyopt.planner.plots.timeline_plot import draw_timeline
    from energyopt.planner.selection import by_name

    for _, image in pictures.images():
        check_suffix(image)
    points = {"--timeline": (draw_timeline, pictures.timeline), "--power": (draw_power, pictures.power)}
    chosen = {
        flag: (drawer, by_name(frontier, wanted[0]).index)
        for flag, (drawer, wanted) in points.items()
        if wanted
    }
    for flag, image in pictures.images():
        if flag in chosen:
            drawer, index = chosen[flag]
            save(drawer(frontier, index), image)
        else:
            save(draw_frontier(frontier), image)
        output.say(f"wrote {image}")


def refuse_pictures(file: Path, kind: str, pictures: Pictures) -> None:
    """Refuse pictures of a file that is no frontier.

    Raises:
        RequestError: names the flag and the file.
    """
    from energyopt.schemas.detect import PLAN

    for flag, _ in pictures.images():
        if flag != "--plot" and kind == PLAN:
            raise RequestError(
                f"{file} is a plan, which holds clocks and no times; give {flag} the frontier it came from"
            )
        raise RequestError(f"{flag} draws a frontier, and {file} is of format {kind}; give a frontier file")
