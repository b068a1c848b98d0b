#!/usr/bin/env bash
# Runs the test suite on the wheel of each Python that releases are made for, in a new environment each, beside the other
# libraries that bring an FFmpeg along, as far as they have wheels for that Python. PYTHONS may name interpreters that are not
# on PATH; where one is missing, the others are tested, and the end is a failure.
# Usage: scripts/test_all.sh [PYTEST_ARGUMENT...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What is installed beside the wheel, and what can be imported then. PyTorch has a build for the CPU alone, which is not
# several GB, for 3.11; for 3.12 and 3.13 $SPDL_TEST_TORCH says what to install.
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

readonly wanted=(3.11 3.12 3.13 3.13t)
# The wheel of 3.12 is for all later ones, so they are to be tested with that very file.
stable=$(scripts/bundle/wheel.sh python3.12) || stable=""
readonly stable
failed=() missing=()
for version in "${wanted[@]}"; do
  line=$(scripts/bundle/pythons.sh "$version")
  if [[ -z $line ]]; then
    missing+=("$version")
    continue
  fi
  case $version in 3.11 | *t) wheel="" ;; *) wheel=$stable ;; esac
  SPDL_TEST_WHEEL=$wheel SPDL_TEST_NEIGHBOURS=$(neighbours "$version") SPDL_IMPORT_ORDER=$(importable "$version") \
    scripts/test_wheel.sh "${line#* }" "$@" || failed+=("$version")
done
if [[ ${#failed[@]} -gt 0 ]]; then
  printf 'spdl test: failed on %s\n' "${failed[*]}" >&2
fi
if [[ ${#missing[@]} -gt 0 ]]; then
  printf 'spdl test: not tested on %s: name interpreters in $PYTHONS\n' "${missing[*]}" >&2
fi
[[ ${#failed[@]} -eq 0 && ${#missing[@]} -eq 0 ]] || exit 1
printf 'spdl test: passed on %s\n' "${wanted[*]}"
