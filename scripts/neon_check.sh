#!/usr/bin/env bash
# Shows on any machine that the NEON kernels produce the same bytes as the portable ones, and that these produce the
# same on ARM as on this processor. The wheel's compiler compiles them for ARM, and qemu runs them. This does not test
# their speed.
# Usage: scripts/neon_check.sh [ROUNDS]   (needs qemu-aarch64-static; Debian: apt-get install qemu-user-static)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/bundle/places.sh

qemu=$(command -v qemu-aarch64-static qemu-aarch64 | head -n 1) ||
  fail "qemu-aarch64-static is missing (Debian: apt-get install qemu-user-static)"
python=$(scripts/bundle/tools.sh)/python
export ZIG_GLOBAL_CACHE_DIR=$bundle_cache/zig ZIG_LOCAL_CACHE_DIR=$bundle_cache/zig

readonly folder=build/neon
mkdir -p $folder
for machine in "$(uname -m)" aarch64; do
  # Linked statically, the program needs no system of that machine around it.
  "$python" -m ziglang c++ -target "$machine-linux-musl" -static -std=c++20 -O2 -ffp-contract=off \
    -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Werror -Inative scripts/neon_check.cpp \
    native/image/planes/plane_kernels*.cpp native/image/resize/{resample_table,kernels*}.cpp \
    native/image/write/*_writers*.cpp \
    native/media/pixel_format.cpp native/core/{buffer,cpu_features,geometry}.cpp -o "$folder/check-$machine"
done
here=$("$folder/check-$(uname -m)" "$@")
there=$("$qemu" "$folder/check-aarch64" "$@")
printf '%s\n' "$here" "$there"
grep --quiet '^neon: ' <<<"$there" || fail "no NEON kernels were compiled for ARM"
[[ $(sed 's/.*digest //' <<<"$here"$'\n'"$there" | sort --unique | wc -l) == 1 ]] ||
  fail "the portable code gives other bytes on ARM than on $(uname -m)"
