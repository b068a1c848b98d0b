#!/usr/bin/env bash
# Builds the pinned libraries that decode pictures for a build of the package from source, by this machine's compilers,
# unless they are there, and prints the folder they are in: static libraries, their headers, among them the private one of
# libjpeg-turbo, and their notices. It takes a minute and a half. CMake runs this. CC and CXX name the compilers, CMAKE the
# command, CMAKE_GENERATOR and CMAKE_MAKE_PROGRAM what builds.
# Usage: scripts/bundle/picture_libraries.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

export CC=${CC:-cc} CXX=${CXX:-c++}
readonly names=(zlib libjpeg-turbo "${picture_libraries[@]}")
for compiler in "$CC" "$CXX"; do
  command -v "${compiler%% *}" >/dev/null || fail "there is no compiler $compiler"
done
prefix=$bundle_cache/pictures-$({
  cat "$bundle_scripts"/{sources.txt,places.sh,picture_libraries.sh,library.sh,notices.sh}
  uname -m
  printf '%s\n' "$CC" "$CXX"
  # Not quoted: it may come with options.
  $CC --version
} | digest -)
readonly prefix

if [[ ! -f $prefix/complete ]]; then
  lock pictures
fi
if [[ -f $prefix/complete ]]; then
  printf '%s\n' "$prefix"
  exit
fi
tools=("${CMAKE:-cmake}" make pkg-config)
# Without it libjpeg-turbo would lose most of its speed.
[[ $(uname -m) != x86_64 ]] || tools+=(nasm)
for tool in "${tools[@]}"; do
  command -v "$tool" >/dev/null || fail "$tool is missing"
done
for module in "dav1d >= 1.0" "libdeflate >= 1.10" "libzstd >= 1.4"; do
  pkg-config --exists "$module" || fail "pkg-config does not find $module"
done

build=$(mktemp -d)
trap 'rm -rf "$build"; [[ -f $prefix/complete ]] || rm -rf "$prefix"' EXIT
rm -rf "$prefix"
mkdir -p "$prefix"
for name in "${names[@]}"; do
  archive=$("$bundle_scripts/fetch.sh" "$name")
  say "building $name $(pin "$name" version)"
  unpack "$archive" "$build/$name"
  logged "$name-source" "$bundle_scripts/library.sh" "$name" "$build/$name" "$prefix"
  "$bundle_scripts/notices.sh" "$name" "$build/$name" "$prefix/notices"
done
touch "$prefix/complete"
printf '%s\n' "$prefix"
