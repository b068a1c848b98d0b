#!/usr/bin/env bash
# Builds the wheels for 64-bit ARM and runs tests on them in Debians for ARM, which qemu emulates: a drawn part of the quick
# ring, with time limits for that. It shows that results are right, not how fast they come. Each run goes into
# benchmarks/results/pythons.json, which scripts/pythons_page.py shows.
# Usage, as root: [SPDL_TEST_PYTHONS="3.11 3.13"] scripts/test_arm.sh [PYTEST_ARGUMENT...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/bundle/places.sh

read -r -a wanted <<<"${SPDL_TEST_PYTHONS:-3.11 3.13}"
readonly wanted
[[ $# -gt 0 ]] || set -- --ring quick --draw tests/io/image=10 --draw tests/pipeline=7 tests/wheel/test_contents.py \
  tests/wheel/test_codecs.py tests/wheel/test_encoders.py tests/wheel/test_import_order.py tests/repository/test_readme.py \
  tests/io/image tests/io/av tests/io/array tests/io/archive tests/pipeline

# The Debian that has a Python, and the Python that builds its wheel.
declare -A suites=([3.11]=bookworm [3.13]=trixie) builders=([3.11]=python3.11 [3.13]=python3.12)
for version in "${wanted[@]}"; do
  [[ -n ${suites[$version]:-} ]] || fail "there is no Debian for ARM with Python $version: known are 3.11 and 3.13"
  # What is missing here is said before anything is built.
  scripts/arm_root.sh "${suites[$version]}" true
done

failed=() runs=()
for version in "${wanted[@]}"; do
  suite=${suites[$version]} environment=build/test-arm-$version report=build/test-arm-$version.xml
  wheel=$(ARCH=aarch64 scripts/bundle/wheel.sh "${builders[$version]}")
  say "testing ${wheel##*/} on Python $version, emulated"
  rm -rf "$environment" "$report"
  scripts/arm_root.sh "$suite" python3 -m venv --without-pip "$environment"
  cp "$wheel" "$environment/"
  # This machine's pip is many times as fast as one that is emulated.
  platforms=()
  for platform in manylinux{_2_28,_2_27,_2_26,_2_24,_2_17,2014}; do
    platforms+=(--platform "${platform}_aarch64")
  done
  logged "test-arm-$version" "$(scripts/bundle/tools.sh)/python" -m pip install --target \
    "$environment/lib/python$version/site-packages" --python-version "$version" --implementation cp "${platforms[@]}" \
    --only-binary :all: --no-compile --group test "$wheel"
  # That one put its own Python into the first line of the commands.
  sed "1s|.*|#!$PWD/$environment/bin/python|" "$environment/lib/python$version/site-packages/bin/spdl" \
    >"$environment/bin/spdl"
  chmod +x "$environment/bin/spdl"
  SPDL_WHEEL=$PWD/$environment/${wheel##*/} scripts/arm_root.sh "$suite" "$environment/bin/python" -m pytest \
    --timeout 900 --any-cost --junit-xml "$report" "$@" || failed+=("$version")
  if [[ -f $report ]]; then
    facts=$(scripts/arm_root.sh "$suite" python3 -c 'import platform as p
print(p.python_version() + ",", *p.libc_ver())')
    qemu=$(qemu-aarch64-static --version | sed -n '1s/.*version \([0-9.]*\).*/\1/p')
    runs+=("$version, 64-bit ARM" "$facts, emulated by qemu $qemu" "$report")
  fi
done
# Not before: the tests hold the page against the record.
for ((run = 0; run < ${#runs[@]}; run += 3)); do
  python3 scripts/pythons_page.py record "${runs[@]:run:3}" "scripts/test_arm.sh $*"
done
[[ ${#failed[@]} -eq 0 ]] || fail "tests failed on ${failed[*]}, emulated"
