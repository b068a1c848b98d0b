#!/usr/bin/env bash
# Builds the libraries that the wheel brings along, unless they are there, and prints the folder they are in: FFmpeg and
# dav1d as shared libraries, all others static, with the notices that the wheel has to carry. On 2 cores it takes some minutes.
# Usage: scripts/bundle/libraries.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

prefix=$(libraries_prefix)
readonly prefix

lock libraries
if [[ -f $prefix/complete ]]; then
  printf '%s\n' "$prefix"
  exit
fi
tools=(make pkg-config)
case $(uname -m) in
  x86_64) tools+=(nasm) ;; # Without it the codecs would lose most of their speed.
  aarch64) ;;
  *) fail "cannot build for $(uname -m): known are x86_64 and aarch64" ;;
esac
for tool in "${tools[@]}"; do
  command -v "$tool" >/dev/null || fail "$tool is missing: install it (Debian: apt-get install $tool) and run this again"
done

PATH=$("$bundle_scripts/tools.sh"):$PATH
export CC=spdl-cc CXX=spdl-c++ PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig
# As both FFmpeg and our own library decode AV1 by it.
export SPDL_DAV1D=shared
build_libraries "libvpx ${picture_libraries[*]} opus" "${container_libraries[*]}" ffmpeg
printf '%s\n' "$prefix"
