"""One of two ranks that train the example, without a plan and with some: RANK OUT PORT PLAN...; writes losses."""

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from energyopt.applier import open_session
from energyopt.applier.overlap import collectives

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "overlapped_layer.py"
rank, out, port, *plans = sys.argv[1:]
os.environ |= {"RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank}
spec = importlib.util.spec_from_file_location("example", EXAMPLE)
assert spec is not None and spec.loader is not None
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)

torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=int(rank), world_size=2)
STARTED: list[str] = []
begin = collectives.start


def noted(collective: Any, tensor: Any, group: Any, size: int) -> Any:
    STARTED.append(collective if group is None else f"{collective} bounded")
    return begin(collective, tensor, group, size)


collectives.start = noted
found = []
for plan in [None, *plans]:
    STARTED.clear()
    losses = example.train(open_session(plan))
    found.append({"losses": losses, "started": STARTED.copy()})
Path(out).write_text(json.dumps(found))
dist.destroy_process_group()
