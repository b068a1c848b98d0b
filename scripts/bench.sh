#!/usr/bin/env bash
# Runs every benchmark, one after the other, and says at the end which missed its mark.
# Usage: scripts/bench.sh [NAME...]   (engine, first_batch, ...; demo is the main job; default: all)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly results=build/bench
mkdir -p $results

names=("$@")
if [[ $# -eq 0 ]]; then
  names=(demo)
  for script in benchmarks/[a-z]*.py; do
    names+=("$(basename "$script" .py)")
  done
fi

missed=()
for name in "${names[@]}"; do
  printf '\n== %s\n' "$name"
  if [[ $name == demo ]]; then
    .venv/bin/spdl demo --report $results --json $results/demo.json
  else
    .venv/bin/python "benchmarks/$name.py" --json "$results/$name.json"
  fi || missed+=("$name")
done

printf '\nresults: %s\n' $results
if [[ ${#missed[@]} -gt 0 ]]; then
  printf 'missed or failed: %s\n' "${missed[*]}"
  exit 1
fi
