#!/usr/bin/env bash
# Runs the test suite on the wheel of each Python that releases support, each in a new environment, beside the other
# libraries that bundle an FFmpeg, as far as they have wheels for that Python. PYTHONS may name interpreters that are
# not on PATH; 3.14 and 3.15 are otherwise Debian's, in a root of their own. If one is missing, the others are tested and
# the script fails at the end. Each run goes into benchmarks/results/pythons.json, which scripts/pythons_page.py shows.
# Usage: [SPDL_TEST_PYTHONS="3.14 3.15"] [WHEEL=dist/NAME.whl] scripts/test_pythons.sh [PYTEST_ARGUMENT...]
#   (WHEEL: the one for 3.12 and later, if it is there)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The packages to install beside the wheel, and the modules that can then be imported. For 3.11, PyTorch has a CPU-only
# build, which is not several GB. For 3.12 and later, $SPDL_TEST_TORCH names the package to install.
neighbours() {
  case $1 in
    3.11) printf 'av opencv-python-headless torch==2.13.0 torchcodec==0.13.0\n' ;;
    3.13t) printf 'av\n' ;;
    *) printf 'av opencv-python-headless %s\n' "${SPDL_TEST_TORCH:-}" ;;
  esac
}

importable() {
  case $1 in
    3.11) printf 'av cv2 torch spdl.io\n' ;;
    3.13t) printf 'av spdl.io\n' ;;
    *) printf 'av cv2 %s spdl.io\n' "${SPDL_TEST_TORCH:+torch}" ;;
  esac
}

read -r -a wanted <<<"${SPDL_TEST_PYTHONS:-3.11 3.12 3.13 3.13t 3.14 3.15}"
readonly wanted
# The wheel of 3.12 serves all later Pythons, so they are tested with that very file.
stable=${WHEEL:-$(scripts/bundle/wheel.sh python3.12)} || stable=""
readonly stable
failed=() missing=() runs=()
for version in "${wanted[@]}"; do
  line=$(scripts/bundle/pythons.sh "$version") inside=()
  if [[ -z $line && $version == 3.1[45] ]] && scripts/debian_root.sh true; then
    line="$version python$version" inside=(scripts/debian_root.sh)
  fi
  if [[ -z $line ]]; then
    missing+=("$version")
    continue
  fi
  report=build/test-$version.xml
  rm -f "$report"
  case $version in 3.11 | *t) wheel="" ;; *) wheel=$stable ;; esac
  SPDL_TEST_WHEEL=$wheel SPDL_TEST_NEIGHBOURS=$(neighbours "$version") SPDL_IMPORT_ORDER=$(importable "$version") \
    "${inside[@]}" scripts/test_wheel.sh "${line#* }" --junit-xml "$report" "$@" || failed+=("$version")
  if [[ -f $report ]]; then
    facts=$("${inside[@]}" "${line#* }" -c 'import platform as p
print(p.python_version() + ",", *p.libc_ver())')
    runs+=("$version" "$facts" "$report")
  fi
done
# Not before: the tests hold the page against the record.
for ((run = 0; run < ${#runs[@]}; run += 3)); do
  python3 scripts/pythons_page.py record "${runs[@]:run:3}" "scripts/test_pythons.sh $*"
done
if [[ ${#failed[@]} -gt 0 ]]; then
  printf 'spdl test: failed on %s\n' "${failed[*]}" >&2
fi
if [[ ${#missing[@]} -gt 0 ]]; then
  printf 'spdl test: not tested on %s: name interpreters in $PYTHONS\n' "${missing[*]}" >&2
fi
[[ ${#failed[@]} -eq 0 && ${#missing[@]} -eq 0 ]] || exit 1
printf 'spdl test: passed on %s\n' "${wanted[*]}"
