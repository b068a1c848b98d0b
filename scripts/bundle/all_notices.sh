#!/usr/bin/env bash
# Gathers the notices of all that a wheel has inside: those of the libraries, of nanobind and of the compiler's runtime, and
# for FFmpeg the scripts that built it and a word on how to replace it, for which the LGPL asks.
# Usage: scripts/bundle/all_notices.sh PYTHON OUT   (PYTHON: an environment that nanobind is installed in)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

readonly python=$1 out=$2

rm -rf "$out"
cp -a "$("$bundle_scripts/libraries.sh")/notices" "$out"
cp -a "$bundle_scripts" "$out/ffmpeg/scripts"
mv "$out/ffmpeg/scripts/REPLACING.md" "$out/ffmpeg/"

mkdir "$out"/{nanobind,zig}
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp "$site"/nanobind-*.dist-info/licenses/LICENSE "$out/nanobind/"
sed '/\*\//q' "$site/nanobind/ext/robin_map/include/tsl/robin_map.h" >"$out/nanobind/robin_map.txt"
zig=$("$("$bundle_scripts/tools.sh")/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')
cp "$zig/LICENSE" "$out/zig/"
cp "$zig/lib/libcxx/LICENSE.TXT" "$out/zig/libcxx.txt"
