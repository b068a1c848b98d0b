#!/usr/bin/env bash
# Makes everything that a release consists of: a wheel for each Python, the source distribution, the sources of the bundled
# libraries, a list of what is inside (SBOM), notes, and checksums. The wheel of 3.12 serves all later Pythons. An x86-64
# machine also makes the wheels for 64-bit ARM.
# Usage: scripts/release.sh [FOLDER]   (by default dist; what an earlier run left there is replaced)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly folder=${1:-dist} wanted=(3.11 3.12 3.13t)
machines=("$(uname -m)")
[[ ${machines[0]} != x86_64 ]] || machines+=(aarch64)
missing=()
for version in "${wanted[@]}"; do
  [[ -n $(scripts/bundle/pythons.sh "$version" 2>/dev/null) ]] || missing+=("$version")
done
if [[ ${#missing[@]} -gt 0 ]]; then
  printf 'make release: there is no Python %s here. Name interpreters that are not on PATH: make release PYTHONS="/path/to/python3.12 ..."\n' \
    "${missing[@]}" >&2
  exit 1
fi
if [[ -n $(git status --porcelain --untracked-files=no) ]]; then
  printf 'make release: there are changes that are not committed; they would go into the release\n' >&2
  exit 1
fi

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml) open=()
if [[ $version == *rc* ]]; then
  mkdir -p build
  open=(build/open_vulnerabilities.md)
fi
python3 scripts/bundle/sbom.py | python3 scripts/vulnerabilities.py --max-age 60 ${open:+--notes "${open[0]}"}

mkdir -p "$folder"
rm -f "$folder"/spdl_turbo-* "$folder"/SHA256SUMS
for version in "${wanted[@]}"; do
  line=$(scripts/bundle/pythons.sh "$version")
  for machine in "${machines[@]}"; do
    ARCH=$machine scripts/bundle/wheel.sh "${line#* }" "$(realpath "$folder")"
  done
done
scripts/bundle/release_sources.sh "$(realpath "$folder")"
python3 scripts/release_files.py "$folder" "${open[@]}"
