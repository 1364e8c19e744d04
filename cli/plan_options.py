"""The options of `energyopt plan`: one annotated type each."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

ProfileFile = Annotated[
    Path | None, typer.Argument(metavar="PROFILE", help="profile.parquet to plan from; not with --sweep.")
]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Frontier file to write; required.")]
PipelineFile = Annotated[
    Path | None, typer.Option("--pipeline", metavar="TOML", help="pipeline.toml; flags override it.")
]
Stages = Annotated[int | None, typer.Option(min=1, help="Pipeline stages; the profile's if not given.")]
Microbatches = Annotated[int | None, typer.Option(min=1, help="Microbatches of an iteration.")]
Schedule = Annotated[
    str | None,
    typer.Option(help="gpipe, 1f1b (if not given), interleaved-1f1b, zb-h1, or a PyTorch schedule .csv."),
]
Chunks = Annotated[
    int | None,
    typer.Option("--chunks", min=1, help="Model chunks on each stage; the profile's if not given."),
]
Degree = Annotated[
    int | None, typer.Option(min=1, help="Degree of the job, for the plan; the profile's if not given.")
]
Replicas = Annotated[int | None, typer.Option(min=1, help="Degree of the job, recorded in the plan.")]
P2p = Annotated[float | None, typer.Option(help="Time of a transfer between two stages, s.")]
Fixed = Annotated[
    float | None,
    typer.Option(
        help="Time of an iteration outside the pipeline (optimizer, gradient sync), s; counted at wait power."
    ),
]


class EffortName(StrEnum):
    """How long to search; the names of energyopt.planner.solve.Effort, which needs numpy."""

    QUICK = "quick"
    NORMAL = "normal"
    THOROUGH = "thorough"


Effort = Annotated[
    EffortName,
    typer.Option(
        "--effort",
        help="quick: plans a little further from the bound, in a second; thorough: closer ones, for several times "
        "as long.",
    ),
]


class OnlyName(StrEnum):
    """What plans may choose; the names of energyopt.planner.composition.restriction.Only."""

    CLOCKS = "clocks"
    OVERLAP = "overlap"


Only = Annotated[
    OnlyName | None,
    typer.Option(
        "--only",
        help="Plan with clocks alone, or with overlap alone at the highest clock, to see what each is worth.",
    ),
]
MostOptions = Annotated[
    int | None,
    typer.Option(
        "--most-options",
        min=0,
        metavar="N",
        help="Options that an operation made of partitions chooses from; 0 for all, 64 to 512 by job size "
        "if not given. Bounds are over all of them.",
    ),
]
MixedClocks = Annotated[
    bool,
    typer.Option(
        "--mixed-clocks",
        help="Let the partitions of an operation run at different clocks, each change at a cost. For comparison: "
        "`run` refuses such plans.",
    ),
]
SwitchTime = Annotated[
    float | None,
    typer.Option(
        "--switch-time-s",
        metavar="S",
        help="What a change between partitions takes; the profile's clock switch latency if not given.",
    ),
]
SwitchEnergy = Annotated[
    float | None,
    typer.Option(
        "--switch-energy-j",
        metavar="J",
        help="What it draws on one GPU; wait power over its time if not given.",
    ),
]
AllowMissing = Annotated[
    bool,
    typer.Option(
        "--allow-missing-clocks", help="Leave out clocks that a partition was not measured at, and warn."
    ),
]
Points = Annotated[int, typer.Option(min=4, max=500, help="Points of the frontier.")]
MaxSwitches = Annotated[
    int | None,
    typer.Option(
        "--max-switches",
        metavar="N",
        help="At most N clock changes an iteration, between operations of a stage, over all stages.",
    ),
]
MinDwell = Annotated[
    float | None,
    typer.Option(
        "--min-dwell-s",
        metavar="S",
        help="Keep a clock for at least S seconds; the profile's clock switch latency if not given.",
    ),
]
SwitchTradeoff = Annotated[
    bool,
    typer.Option(
        "--switch-tradeoff", help="Show what fewer clock changes cost, at 1 to 1.1 times the max-clock time."
    ),
]
PeakPowerCap = Annotated[
    float | None,
    typer.Option(
        "--peak-power-cap-w",
        metavar="W",
        help="Highest power at any time, all GPUs of one pipeline (one data-parallel replica) together, W. "
        "Plans obey it; bounds are those without it.",
    ),
]
PeakLasts = Annotated[
    float | None,
    typer.Option(
        "--peak-lasts-s",
        metavar="S",
        help="Count as peak power what is drawn for at least S seconds on end; 0 if not given: any overlap of "
        "operations.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the points as JSON.")]
