"""`python -m benchmarks [NAME ...]`: run benchmarks and print their tables.

Exit codes: 0 fine, 1 a row misses what is asked, 2 an unknown name or a benchmark that cannot run here.
"""

import argparse
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.registry import Benchmark, Settings, UnavailableError, benchmarks, is_short
from energyopt.planner.tables import plain

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    """Run the chosen benchmarks, all default ones where none is named."""
    options = _parser().parse_args(arguments)
    known = benchmarks()
    if options.list:
        for one in known.values():
            print(f"{one.name:16} {one.shows}{'' if one.by_default else ' (runs only when named)'}")
        return 0
    if unknown := [name for name in options.names if name not in known]:
        print(f"benchmarks: no benchmark {unknown[0]!r}; known are {', '.join(known)}", file=sys.stderr)
        return 2
    default = [name for name, one in known.items() if one.by_default or options.smoke]
    settings = Settings(
        root=ROOT,
        data=options.data,
        smoke=options.smoke,
        microbatches=tuple(options.microbatches) if options.microbatches else None,
        runs=options.runs,
        time_limit_s=options.time_limit_s,
    )
    print(f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}")
    return max(_run(known[name], settings) for name in options.names or default)


def _run(benchmark: Benchmark, settings: Settings) -> int:
    print(f"\n# {benchmark.name}: {benchmark.shows}", flush=True)
    try:
        table = benchmark.run(settings)
    except UnavailableError as reason:
        print(f"benchmarks: {benchmark.name}: {reason}", file=sys.stderr)
        return 2
    print(plain(table), flush=True)
    return 1 if is_short(table) and not settings.smoke else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure what energyopt promises."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="benchmarks to run; without any, the default ones"
    )
    parser.add_argument("--list", action="store_true", help="print names and what they show")
    parser.add_argument(
        "--smoke", action="store_true", help="run each once at tiny size; results mean nothing"
    )
    parser.add_argument(
        "--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real data"
    )
    parser.add_argument("--microbatches", type=int, nargs="+", help="instead of each benchmark's own choice")
    parser.add_argument("--runs", type=int, help="timed runs behind each median")
    parser.add_argument("--time-limit-s", type=float, help="for each exact search, and for others' planners")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
