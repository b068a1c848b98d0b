#!/usr/bin/env bash
# Builds the pinned libraries that decode pictures for a build of the package from source, by this machine's compilers,
# unless they are there, and prints the folder they are in: static libraries, their headers, among them the private one of
# libjpeg-turbo, and their notices. It takes a minute and a half. CMake runs this. CC and CXX name the compilers, CMAKE
# and NINJA the commands.
# Usage: scripts/bundle/picture_libraries.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

export CC=${CC:-cc} CXX=${CXX:-c++}
# Inside our extension, so that it does not meet the one that the system's FFmpeg has.
export SPDL_DAV1D=static
for compiler in "$CC" "$CXX"; do
  command -v "${compiler%% *}" >/dev/null || fail "there is no compiler $compiler"
done

# what_compiles COMPILER: its version and the options that it comes with. CMake names by its path what a shell calls c++.
what_compiles() {
  # Not quoted: the options are words of their own. Before the version stands the name by which it was called.
  $1 --version | sed '1s/^[^ ]* //'
  case $1 in *' '*) printf '%s\n' "${1#* }" ;; esac
}

prefix=$bundle_cache/pictures-$({
  cat "$bundle_scripts"/{sources.txt,places.sh,picture_libraries.sh,library.sh,notices.sh}
  uname -m
  what_compiles "$CC"
  what_compiles "$CXX"
} | digest -)
readonly prefix

if [[ ! -f $prefix/complete ]]; then
  lock pictures
fi
if [[ -f $prefix/complete ]]; then
  printf '%s\n' "$prefix"
  exit
fi
tools=("${CMAKE:-cmake}" make meson "${NINJA:-ninja}")
# Without it libjpeg-turbo and dav1d would lose most of their speed.
[[ $(uname -m) != x86_64 ]] || tools+=(nasm)
for tool in "${tools[@]}"; do
  command -v "$tool" >/dev/null || fail "$tool is missing"
done
export PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig
build_libraries "${picture_libraries[*]}" "${container_libraries[*]}"
printf '%s\n' "$prefix"
