#!/usr/bin/env bash
# The main job, start to end, on a simulated GPU: profile, plan, apply, diff, pictures.
# Usage: examples/demo.sh [path of the energyopt command]
set -euo pipefail
command=$(realpath "${1:-energyopt}")
cd "$(dirname "$0")/.."
out=demo-out
mkdir -p "$out"

run() {
  printf '\n$ energyopt %s\n' "$*"
  "$command" "$@"
}

echo "The GPU is simulated (a model of an A100): every number here comes from that model, not from a measurement."
run profile llama-3.2-3b -o $out/profile.parquet --device sim:a100-sxm4-80gb --stages 2 --microbatch-size 4 --sequence-length 4096
run plan $out/profile.parquet -o $out/frontier.parquet --pipeline examples/pipeline.toml --points 12
run apply $out/frontier.parquet -o $out/plan.json
run apply $out/frontier.parquet -o $out/plan-slower.json --max-slowdown 1.05
printf '\n(the slower plan saves more energy and takes more time, so diff with a 1 %% limit on time says so: exit code 1)'
run diff $out/plan.json $out/plan-slower.json --max-time-increase 1% || test $? -eq 1
run show $out/frontier.parquet --plot $out/frontier.png --timeline max_clock_time $out/timeline.png > /dev/null
printf '\nIn %s/: profile.parquet, frontier.parquet, plan.json, plan-slower.json, frontier.png, timeline.png\n' "$out"
