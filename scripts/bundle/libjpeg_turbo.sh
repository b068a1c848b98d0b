#!/usr/bin/env bash
# Builds the pinned libjpeg-turbo for a build of the package from source, by this machine's compiler, unless it is there,
# and prints the folder it is in: a static library, its headers with the private one, and its notices. It takes half a
# minute. CMake runs this. CC names the compiler, CMAKE the command, CMAKE_GENERATOR and CMAKE_MAKE_PROGRAM what builds.
# Usage: scripts/bundle/libjpeg_turbo.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

export CC=${CC:-cc}
read -r -a compiler <<<"$CC"
readonly cmake=${CMAKE:-cmake} compiler
command -v "${compiler[0]}" >/dev/null || fail "there is no C compiler $CC"
version=$(pin libjpeg-turbo version)
prefix=$bundle_cache/libjpeg-turbo-$version-$({
  cat "$bundle_scripts/sources.txt" "$bundle_scripts/libjpeg_turbo.sh" "$bundle_scripts/notices.sh"
  uname -m
  "${compiler[@]}" --version
} | digest -)
readonly version prefix

if [[ ! -f $prefix/complete ]]; then
  lock "libjpeg-turbo"
fi
if [[ -f $prefix/complete ]]; then
  printf '%s\n' "$prefix"
  exit
fi
command -v "$cmake" >/dev/null || fail "there is no $cmake"
# Without it the library would lose most of its speed.
[[ $(uname -m) != x86_64 ]] || command -v nasm >/dev/null || command -v yasm >/dev/null || fail "nasm is missing"
archive=$("$bundle_scripts/fetch.sh" libjpeg-turbo)

build=$(mktemp -d)
trap 'rm -rf "$build"; [[ -f $prefix/complete ]] || rm -rf "$prefix"' EXIT
tar -xf "$archive" -C "$build" --strip-components=1
readonly source=$build/lib/libjpeg-turbo-$version
options=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib
  -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_C_VISIBILITY_PRESET=hidden
  -DENABLE_SHARED=OFF -DREQUIRE_SIMD=ON -DWITH_TOOLS=OFF -DWITH_TESTS=OFF)
[[ -z ${CMAKE_MAKE_PROGRAM:-} ]] || options+=(-DCMAKE_MAKE_PROGRAM="$CMAKE_MAKE_PROGRAM")
say "building libjpeg-turbo $version"
rm -rf "$prefix"
mkdir -p "$prefix"
logged libjpeg-turbo-source "$cmake" -S "$source" -B "$build/build" "${options[@]}"
logged libjpeg-turbo-source "$cmake" --build "$build/build" --parallel "$(nproc)"
logged libjpeg-turbo-source "$cmake" --install "$build/build"
# Our own entropy decoder works inside the library.
install -m 644 "$source/src/jpegint.h" "$prefix/include/"
"$bundle_scripts/notices.sh" libjpeg-turbo "$build" "$prefix/notices"
touch "$prefix/complete"
printf '%s\n' "$prefix"
