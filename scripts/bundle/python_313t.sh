#!/usr/bin/env bash
# Builds the free-threaded CPython 3.13 from source, unless it is there, and prints its interpreter. It takes about five
# minutes on 2 cores. With --thread-sanitizer it is one that finds data races, its own included in extensions.
# Usage: scripts/bundle/python_313t.sh [--thread-sanitizer]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

options=(--disable-gil --disable-test-modules) kind=python-3.13t
if [[ ${1:-} == --thread-sanitizer ]]; then
  options+=(--with-thread-sanitizer) kind=python-3.13t-tsan
fi
readonly prefix=$bundle_cache/$kind-$(pin python sha256 | cut -c 1-12)
readonly interpreter=$prefix/bin/python3.13t

lock "$kind"
if [[ ! -f $prefix/complete ]]; then
  archive=$("$bundle_scripts/fetch.sh" python)
  build=$(mktemp -d)
  trap 'rm -rf "$build"' EXIT
  rm -rf "$prefix"
  say "building $kind"
  tar -xf "$archive" -C "$build" --strip-components=1
  cd "$build"
  # Races of the interpreter that builds itself are not ours to hear of.
  export TSAN_OPTIONS=report_bugs=0
  logged "$kind" ./configure -q --prefix="$prefix" "${options[@]}"
  logged "$kind" make -s -j"$(nproc)"
  logged "$kind" make -s install
  touch "$prefix/complete"
fi
printf '%s\n' "$interpreter"
