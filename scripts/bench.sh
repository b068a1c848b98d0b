#!/usr/bin/env bash
# Measures this package beside others, and puts the results into build/bench: JSON, tables, plots, a summary.
# Usage: scripts/bench.sh quick|full [NAME...]
# quick: short rows, few workers, three rounds. It takes less than ten minutes on two cores, plus the installations.
# full: every benchmark, most of them in fewer rounds than it has by itself, so that the whole takes some two hours.
# NAME is a section, another script of benchmarks/ (arrays, images, ...), or demo, which is that of `make demo`. By
# default quick runs the sections, full everything.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly effort=${1:?usage: scripts/bench.sh quick|full [NAME...]}
shift
readonly python=.venv/bin/python results=build/bench
readonly sections=(loaders data_formats engine noisy_neighbour video audio)
declare -A short=(
  [loaders]="--rounds 3 --seconds 0.1 --workers 1 2 4 --other-steps best"
  [data_formats]="--rounds 3 --seconds 0.1 --workers 1 2 4"
  [engine]="--rounds 3 --rows no-op round-trip unpacking sleep-1ms"
  [noisy_neighbour]="--rounds 3 --tries 1 --steps 100"
  # Without our wheel: making it takes longer than all of this, and the checkout's own build is measured.
  [video]="--rounds 3 --rows small --without wheel"
  [audio]="--rounds 3 --rows mp3 --without wheel"
)
# On two cores, 16 and 32 workers took most of the time, and were at most 13 % faster than 8 for those who make batches
# of photos. The records on the pages have them all.
workers=""
for number in 1 2 4 8 16 32; do
  [[ $number -gt $((4 * $(nproc))) ]] || workers+=" $number"
done
# What is not named here takes few minutes as it is.
declare -A long=(
  [loaders]="--seconds 0.5 --workers$workers"
  [data_formats]="--workers$workers"
  [noisy_neighbour]="--rounds 3"
  [video]="--rounds 3"
  [audio]="--rounds 3"
  [advise]="--rounds 3"
  [autotune]="--rounds 3 --quiet 20"
  [clip_soak]="--files 40000"
  [dropin]="--rounds 3"
  [free_threading]="--rounds 3"
  [images]="--rounds 3"
  [labelled]="--rounds 3"
  [normalising]="--rounds 3"
  [preprocessing]="--rounds 3"
  [ray_actors]="--kills 30"
  [ray_leaving]="--rounds 3"
  [records]="--rounds 3"
  [region_kills]="--kills 100"
  [soak]="--items 250000"
  [stable_abi]="--rounds 5"
  [why]="--rounds 1"
)
# Sets options to those of a benchmark.
choose_options() {
  if [[ $effort == quick ]]; then
    read -ra options <<<"${short[$1]:-}"
  else
    read -ra options <<<"${long[$1]:-}"
  fi
}

names=("$@")
if [[ $# -eq 0 ]]; then
  names=("${sections[@]}")
  if [[ $effort == full ]]; then
    names+=(demo)
    for script in benchmarks/[a-z]*.py; do
      name=$(basename "$script" .py)
      [[ $name == report || " ${sections[*]} " == *" $name "* ]] || names+=("$name")
    done
  fi
fi
for name in "${names[@]}"; do
  if [[ $name != demo && ! -f benchmarks/$name.py ]]; then
    printf 'make bench: there is no %q; known are %s, demo and what else is in benchmarks/\n' "$name" "${sections[*]}" >&2
    exit 2
  fi
done

mkdir -p $results
if [[ " ${names[*]} " =~ " loaders "|" noisy_neighbour " ]]; then
  $python benchmarks/loaders.py --prepare
fi
for name in video audio; do
  choose_options $name
  [[ " ${names[*]} " != *" $name "* ]] || $python "benchmarks/$name.py" --prepare "${options[@]}"
done
# Sets cpu_seconds to the CPU time of all commands that have ended. Other work on the machine makes a run longer, but
# hardly this. A subshell would see only commands of its own.
count_cpu_seconds() {
  times >$results/times
  cpu_seconds=$(awk -F '[ms ]+' 'NR == 2 { printf "%.0f", 60 * ($1 + $3) + $2 + $4 }' $results/times)
  rm $results/times
}

SECONDS=0
count_cpu_seconds
readonly cpu_before=$cpu_seconds
missed=() failed=() took=()
for name in "${names[@]}"; do
  printf '\n== %s\n' "$name"
  # A result that an earlier run left there must not pass for this run's.
  rm -f "$results/$name.json"
  began=$SECONDS
  choose_options "$name"
  if [[ $name == demo ]]; then
    mkdir -p $results/demo
    .venv/bin/spdl demo --peers --report $results/demo --json $results/demo.json
  else
    $python "benchmarks/$name.py" --json "$results/$name.json" "${options[@]}"
  fi
  status=$?
  took+=("\"$name\": $((SECONDS - began))")
  if [[ ! -f $results/$name.json ]]; then
    failed+=("$name")
  elif [[ $status -ne 0 ]]; then
    missed+=("$name")
  fi
done

count_cpu_seconds
printf '\n== summary (measured in %d min %d s)\n' $((SECONDS / 60)) $((SECONDS % 60))
each=$(printf '%s, ' "${took[@]}")
printf '{"effort": "%s", "measured": "%s", "part_seconds": {%s}, "seconds": %d, "cpu_seconds": %d, "cores": %d, "date": "%s", "commit": "%s"}\n' \
  "$effort" "${names[*]}" "${each%, }" $SECONDS $((cpu_seconds - cpu_before)) "$(nproc)" "$(date -I)" "$(git describe --always --abbrev=12 --dirty)" >$results/bench.json
reported=()
for name in "${names[@]}"; do
  [[ " ${sections[*]} " != *" $name "* ]] || reported+=("$name")
done
# Report only these. Other results may come from an earlier run of another version.
[[ ${#reported[@]} -eq 0 ]] || $python benchmarks/report.py $results "${reported[@]}" || failed+=(report)
[[ ${#missed[@]} -eq 0 ]] || printf 'claims that do not hold: %s\n' "${missed[*]}"
[[ ${#failed[@]} -eq 0 ]] || printf 'failed, with the reason above: %s\n' "${failed[*]}"
[[ ${#reported[@]} -eq 0 ]] || printf 'report: %s\n' $results/report.html $results/report.md
written=()
for name in bench "${names[@]}"; do
  [[ ! -f $results/$name.json ]] || written+=("$name.json")
done
printf 'figures: %s\n' "${written[*]} in $results"
[[ ${#failed[@]} -eq 0 ]]
