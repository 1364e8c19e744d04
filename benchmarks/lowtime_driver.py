"""Runs lowtime on one job. A script for lowtime's own virtual environment: nothing of energyopt is imported.

    python lowtime_driver.py JOB.json RESULT.json

JOB: unit_time_s, wait_power_w, prune_on, specs (each a list of [clock_mhz, time_s, energy_j]), spec_of (an index
for each operation) and edges ([first, then] between operations). RESULT: iterations, each with the time that
lowtime claims and the clock that it assigns to each operation.

Cost is effective energy. With prune_on `effective` it is that from the start; with `whole` lowtime prunes options
on their whole energy first, and the wait energy over the time in whole units is taken off what is left.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import networkx as nx
from lowtime.cost_model import ExponentialModel
from lowtime.graph_utils import add_sink_node, add_source_node
from lowtime.operation import CandidateExecutionOptions, ExecutionOption, Operation, OperationSpec
from lowtime.solver import PhillipsDessouky

SOURCE, SINK = -1, -2


def spec(job: dict[str, Any], measured: list[list[float]]) -> OperationSpec:
    unit_s, wait_w, early = job["unit_time_s"], job["wait_power_w"], job["prune_on"] == "effective"
    options = [
        ExecutionOption(
            real_time=time_s,
            unit_time=unit_s,
            cost=energy_j - wait_w * time_s if early else energy_j,
            knob=int(clock_mhz),
        )
        for clock_mhz, time_s, energy_j in measured
    ]
    candidates = CandidateExecutionOptions(options=options)
    for option in () if early else candidates.options:
        option.cost -= wait_w * option.quant_time * unit_s
    return OperationSpec(options=candidates, cost_model=ExponentialModel(candidates))


def solve(job: dict[str, Any]) -> list[dict[str, Any]]:
    specs = [spec(job, one) for one in job["specs"]]
    operations = [Operation(spec=specs[index]) for index in job["spec_of"]]
    dag = nx.DiGraph(source_node=SOURCE, sink_node=SINK)
    dag.add_nodes_from((number, {"op": one}) for number, one in enumerate(operations))
    dag.add_edges_from(job["edges"])
    add_source_node(dag, SOURCE)
    add_sink_node(dag, SINK)
    return [
        {"claimed_time_s": result.real_time, "clocks_mhz": [one.assigned_knob for one in operations]}
        for result in PhillipsDessouky(dag).run()
    ]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    wanted, answer = Path(sys.argv[1]), Path(sys.argv[2])
    answer.write_text(json.dumps({"iterations": solve(json.loads(wanted.read_text()))}))
