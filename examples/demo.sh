#!/usr/bin/env bash
# The main job, start to end, on the example that ships with the project: import, plan, apply, diff, pictures.
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

echo "The example is a made-up GPU from a formula (examples/synthetic_profile.py): nothing here was measured."
run import lowtime examples/synthetic-4-stages.csv -o $out/profile.parquet --gpu "synthetic GPU" --wait-power-w 90
run plan $out/profile.parquet -o $out/frontier.parquet --pipeline examples/pipeline.toml --points 12
run apply $out/frontier.parquet -o $out/plan.json
run apply $out/frontier.parquet -o $out/plan-slower.json --max-slowdown 1.05
printf '\n(the slower plan saves more energy and takes more time, so diff with a 1 %% limit on time says so: exit code 1)'
run diff $out/plan.json $out/plan-slower.json --max-time-increase 1% || test $? -eq 1
run show $out/frontier.parquet --plot $out/frontier.png --timeline max_clock_time $out/timeline.png > /dev/null
printf '\nIn %s/: profile.parquet, frontier.parquet, plan.json, plan-slower.json, frontier.png, timeline.png\n' "$out"
