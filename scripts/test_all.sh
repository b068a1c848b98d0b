#!/usr/bin/env bash
# Runs the test suite on the wheel of each Python that releases are made for and that is found here, in a new environment
# each, beside the other libraries that bring an FFmpeg along, as far as they have wheels for that Python. PYTHONS may name
# interpreters that are not on PATH.
# Usage: scripts/test_all.sh [PYTEST_ARGUMENT...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What is installed beside the wheel, and what can be imported then. PyTorch has a build for the CPU alone, which is not
# several GB, for 3.11.
neighbours() {
  case $1 in
    3.11) printf 'av opencv-python-headless torch==2.13.0 torchcodec==0.13.0\n' ;;
    3.13t) printf 'av\n' ;;
    *) printf 'av opencv-python-headless\n' ;;
  esac
}

importable() {
  case $1 in
    3.11) printf 'av cv2 torch spdl.io\n' ;;
    3.13t) printf 'av spdl.io\n' ;;
    *) printf 'av cv2 spdl.io\n' ;;
  esac
}

mapfile -t pythons < <(scripts/bundle/pythons.sh)
[[ ${#pythons[@]} -gt 0 ]] || { echo "spdl test: no Python was found to test on" >&2; exit 1; }
failed=()
for line in "${pythons[@]}"; do
  version=${line%% *}
  SPDL_TEST_NEIGHBOURS=$(neighbours "$version") SPDL_IMPORT_ORDER=$(importable "$version") \
    scripts/test_wheel.sh "${line#* }" "$@" || failed+=("$version")
done
printf 'spdl test: tested on %s\n' "$(printf '%s ' "${pythons[@]%% *}")"
if [[ ${#failed[@]} -gt 0 ]]; then
  printf 'spdl test: failed on %s\n' "${failed[*]}" >&2
  exit 1
fi
