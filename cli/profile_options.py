"""The options of `energyopt profile`: one annotated type each."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class KernelsOnName(StrEnum):
    """Where real kernels run."""

    CUDA = "cuda"
    CPU = "cpu"


class DtypeName(StrEnum):
    """Types of weights and activations."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class RecomputeName(StrEnum):
    """The names of energyopt.profiler.workloads.job.Recompute."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class AttentionName(StrEnum):
    """The names of energyopt.profiler.workloads.job.AttentionKind."""

    FUSED = "fused"
    UNFUSED = "unfused"


class SourceName(StrEnum):
    """The names of energyopt.profiler.measurement.settings.SourceChoice."""

    AUTO = "auto"
    COUNTER = "counter"
    POWER = "power"


Workload = Annotated[
    str,
    typer.Argument(
        metavar="WORKLOAD",
        help="llama-3.2-3b, llama-3.3-70b, qwen3-1.7b, gpt3-xl, gpt3-175b, a .toml or config.json (or its folder) "
        "with Hugging Face names, or module:function.",
    ),
]
Output = Annotated[Path, typer.Option("-o", "--output", help="Profile to write.")]
Device = Annotated[
    str,
    typer.Option(
        metavar="auto|nvml:UUID|nvml:N|sim:NAME",
        help="GPU to measure: CUDA's first (under torchrun each rank's own), one by UUID or CUDA number, or a "
        "simulated one.",
    ),
]
KernelsOn = Annotated[
    KernelsOnName,
    typer.Option(help="cpu times torch on the CPU, to try things out; the energy stays the GPU's."),
]
PowerLimit = Annotated[float | None, typer.Option(help="Power limit of a simulated GPU, W.")]
Clocks = Annotated[
    str | None,
    typer.Option(
        metavar="LOW:HIGH:STEP",
        help="SM clocks, MHz; also a list (1410,1200), all, or current, which sets none. If not given, 18 from the "
        "highest down to 60 % of it.",
    ),
]
Stages = Annotated[int | None, typer.Option(min=1, help="Pipeline stages; 1 if not given.")]
Chunks = Annotated[
    int | None, typer.Option("--chunks", min=1, help="Model chunks on each stage; 1 if not given.")
]
Layers = Annotated[
    str | None,
    typer.Option(metavar="N,N,...", help="Layers of each stage (chunk by chunk); evenly if not given."),
]
Microbatch = Annotated[int | None, typer.Option(min=1, help="Sequences in a microbatch; 1 if not given.")]
Sequence = Annotated[int | None, typer.Option(min=1, help="Tokens in a sequence; 2048 if not given.")]
Degree = Annotated[int | None, typer.Option(min=1, help="GPUs that share a stage this way; 1 if not given.")]
Replicas = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Replicas that each layer's weights are sharded over, the other degrees being 1; 1 if not given.",
    ),
]
Dtype = Annotated[DtypeName | None, typer.Option(help="Of weights and activations; bfloat16 if not given.")]
Recompute = Annotated[
    RecomputeName | None, typer.Option(help="What a backward computes again; none if not given.")
]
Attention = Annotated[
    AttentionName | None, typer.Option(help="Attention's core as one kernel (if not given) or several.")
]
Split = Annotated[
    bool,
    typer.Option("--split-backward", help="Input and weight gradients apart, for zero-bubble schedules."),
]
SequenceParallel = Annotated[
    bool | None,
    typer.Option(
        "--sequence-parallel/--no-sequence-parallel", help="With tensor parallelism; on if not given."
    ),
]
CommSms = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,...",
        help="SM counts to measure communication kernels at, besides; also LOW:HIGH:STEP. With --overlap 3:30:3 if "
        "not given.",
    ),
]
Overlap = Annotated[
    bool,
    typer.Option(
        "--overlap",
        help="Also measure partitions as a whole, with communication beside their compute kernels in every way.",
    ),
]
Search = Annotated[
    bool,
    typer.Option(
        "--search",
        help="Like --overlap, but choose which configurations to measure at which clocks; needs BoTorch.",
    ),
]
SearchPoints = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Most configurations at a clock that --search measures, over all partitions; a tenth if not given.",
    ),
]
SkipCommunication = Annotated[
    bool,
    typer.Option("--skip-communication", help="Leave communication out, where one process has no peers."),
]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Fit the sweep into a time such as 30m: fewer windows, then fewer clocks."
    ),
]
Windows = Annotated[int, typer.Option(min=2, max=100, help="Windows behind each row, one per round.")]
WindowS = Annotated[
    float | None,
    typer.Option("--window-s", help="Length of a window, s; ten ticks of the reading if not given."),
]
WarmUp = Annotated[
    float | None,
    typer.Option("--warm-up-s", help="The kernel runs this long before its window, s; from the tick."),
]
CoolDown = Annotated[float, typer.Option("--cool-down-s", min=0.0, help="Pause after each window, s.")]
Soak = Annotated[float, typer.Option("--soak-s", min=0.0, help="Longest time to warm the board up first, s.")]
EarlyStop = Annotated[
    bool,
    typer.Option(
        "--early-stop/--no-early-stop",
        help="Stop lowering the clock once all effective energies have turned.",
    ),
]
Source = Annotated[SourceName, typer.Option("--energy-source", help="auto takes the counter where it works.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the order of kernels, and of a simulated GPU's noise.")]
Restart = Annotated[bool, typer.Option("--restart", help="Throw away what a stopped run has left.")]
SiteLock = Annotated[
    str | None,
    typer.Option(
        metavar="LOW:HIGH|none",
        help="Locked clocks that your site had set, to be put back at the end; NVML cannot read them.",
    ),
]
AllowPartial = Annotated[
    bool, typer.Option("--allow-partial", help="Go on without ranks whose GPU cannot be measured or clocked.")
]
Json = Annotated[bool, typer.Option("--json", help="Print what was measured as JSON.")]
