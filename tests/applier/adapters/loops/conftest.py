"""Real training jobs, each run as it is, once more with the adapters in, the first with failing hooks too."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
VARIANTS: dict[str, bool | str] = {"plain": False, "hooked": True}
FAILING: dict[str, bool | str] = {"broken": "broken"}
SCRIPTS = HERE.parents[1] / "training"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a job with the adapters in told, by rank (see Recorder in ranks.py): it computes the same as without."""

    words: list[str]
    facts: list[dict[str, Any]]
    results: list[dict[str, Any]]


def _read(folder: Path, name: str, ranks: int) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{name}-{rank}.json").read_text()) for rank in range(ranks)]


@pytest.fixture
def run_jobs(tmp_path: Path) -> Callable[..., dict[str, Job]]:
    """`run_jobs("script.py", ["framework.module"], {"name": "2 --option"})`: two ranks with that option."""

    def run(script: str, modules: list[str], jobs: dict[str, str]) -> dict[str, Job]:
        for module in modules:
            if importlib.util.find_spec(module.partition(".")[0]) is None:
                pytest.skip(f"no {module.partition('.')[0]}: it comes with the dev extra")
        orders = []
        for name, line in jobs.items():
            ranks, *arguments = line.split()
            for kind, hooked in (VARIANTS if orders else VARIANTS | FAILING).items():
                out = tmp_path / name / kind
                out.mkdir(parents=True)
                orders.append(
                    {"ranks": int(ranks), "hooked": hooked, "out": str(out), "arguments": arguments}
                )
        command = [sys.executable, str(HERE / "ranks.py"), str(SCRIPTS / script)]
        command += [json.dumps(modules), json.dumps(orders)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        return {name: _job(tmp_path / name, int(line.split()[0])) for name, line in jobs.items()}

    return run


def _job(folder: Path, ranks: int) -> Job:
    results = _read(folder / "hooked", "rank", ranks)
    for variant in folder.iterdir():
        assert results == _read(variant, "rank", ranks), (
            f"the adapter has changed what is computed: {variant}"
        )
    told = _read(folder / "hooked", "recorded", ranks)
    return Job(words=[one["words"] for one in told], facts=[one["facts"] for one in told], results=results)


@pytest.fixture
def recorder() -> Any:
    """The same hooks as in those jobs, for this process."""
    spec = importlib.util.spec_from_file_location("loops_ranks", HERE / "ranks.py")
    assert spec is not None and spec.loader is not None
    ranks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ranks)
    return ranks.Recorder()


@pytest.fixture
def whole() -> Callable[[int], str]:
    """What an iteration of some microbatches tells."""

    def words(microbatches: int) -> str:
        inside = " ".join(f"F{number} . B{number} ." for number in range(microbatches))
        return f"({microbatches} {inside} ) O0 ."

    return words
