#!/usr/bin/env bash
# Builds the wheel that brings all libraries along, for one Python, and prints where it lies.
# Usage: scripts/bundle/wheel.sh PYTHON [FOLDER]   (FOLDER: where the wheel goes, by default dist)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

python=$(command -v "${1:?usage: scripts/bundle/wheel.sh PYTHON [FOLDER]}") || fail "there is no $1"
readonly python folder=${2:-$bundle_root/dist}
readonly platform=manylinux_2_28_$(uname -m)

prefix=$("$bundle_scripts/libraries.sh")
tools=$("$bundle_scripts/tools.sh")
unwinder=$("$bundle_scripts/unwinder.sh")
tag=$("$python" -c 'import platform, sys, sysconfig as s
print(platform.python_version() + ("t" if s.get_config_var("Py_GIL_DISABLED") else ""), s.get_path("include"))')
include=${tag#* } tag=${tag%% *}
[[ -f $include/Python.h ]] || fail "$python has no headers ($include/Python.h): install them, or name another Python"

# An environment to build in, hashes checked.
readonly environment=$bundle_cache/build-$tag-$(printf %s "$python" | digest - "$bundle_scripts/build.txt")
lock "build-$tag"
if [[ ! -f $environment/complete ]]; then
  rm -rf "$environment"
  logged "build-$tag" "$python" -m venv --without-pip "$environment"
  logged "build-$tag" "$tools/python" -m pip --python "$environment/bin/python" install --require-hashes \
    --only-binary :all: -r "$bundle_scripts/build.txt"
  touch "$environment/complete"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The LGPL asks for the scripts that built FFmpeg and for a word on how to replace it.
cp -a "$prefix/notices" "$scratch/notices"
cp -a "$bundle_scripts" "$scratch/notices/ffmpeg/scripts"
mv "$scratch/notices/ffmpeg/scripts/REPLACING.md" "$scratch/notices/ffmpeg/"

# What the compiler and nanobind put into the extension has licences, too.
mkdir "$scratch/notices"/{nanobind,zig}
site=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp "$site"/nanobind-*.dist-info/licenses/LICENSE "$scratch/notices/nanobind/"
sed '/\*\//q' "$site/nanobind/ext/robin_map/include/tsl/robin_map.h" >"$scratch/notices/nanobind/robin_map.txt"
zig=$("$tools/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')
cp "$zig/LICENSE" "$scratch/notices/zig/"
cp "$zig/lib/libcxx/LICENSE.TXT" "$scratch/notices/zig/libcxx.txt"

say "building the wheel for Python $tag"
export PATH=$environment/bin:$tools:$PATH CC=spdl-cc CXX=spdl-c++ LDFLAGS=$unwinder PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig
logged "wheel-$tag" "$tools/python" -m pip --python "$environment/bin/python" wheel --no-deps --no-build-isolation \
  --wheel-dir "$scratch" -C build-dir="$bundle_root/build/bundle/${prefix##*/}/{wheel_tag}" \
  -C cmake.define.SPDL_NOTICES="$scratch/notices" "$bundle_root"
mkdir -p "$folder"
LD_LIBRARY_PATH=$prefix/lib logged "repair-$tag" "$tools/auditwheel" repair --plat "$platform" --only-plat \
  --wheel-dir "$scratch/repaired" "$scratch"/spdl_turbo-*.whl
wheels=("$scratch"/repaired/*.whl)
mv "${wheels[@]}" "$folder/"
printf '%s\n' "$folder/${wheels[0]##*/}"
