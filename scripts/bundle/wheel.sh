#!/usr/bin/env bash
# Builds the wheel that brings all libraries along, for one Python, and prints where it lies.
# Usage: [ARCH=aarch64] scripts/bundle/wheel.sh PYTHON [FOLDER [PIP_OPTION...]]
#   (ARCH: the machine it is for, by default this one; FOLDER: where the wheel goes, by default dist)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

python=$("$bundle_scripts/python.sh" "${1:?usage: scripts/bundle/wheel.sh PYTHON [FOLDER]}")
readonly python folder=${2:-$bundle_root/dist}
machine=${ARCH:-$(uname -m)}
readonly machine platform=manylinux_2_28_$machine
readonly on=("$bundle_scripts/machine.sh" "$machine")

prefix=$("${on[@]}" "$bundle_scripts/libraries.sh")
tools=$("${on[@]}" "$bundle_scripts/tools.sh")
unwinder=$("${on[@]}" "$bundle_scripts/unwinder.sh")
tag=$("$python" -c 'import platform, sys, sysconfig as s
print(platform.python_version() + ("t" if s.get_config_var("Py_GIL_DISABLED") else ""), s.get_path("include"))')
include=${tag#* } tag=${tag%% *}
[[ -f $include/Python.h ]] || fail "$python has no headers ($include/Python.h): install them, or name another Python"

# An environment to build in, hashes checked.
readonly environment=$bundle_cache/build-$tag-$(printf %s "$python" | digest - "$bundle_scripts/build.txt")
if [[ ! -f $environment/complete ]]; then
  lock "build-$tag"
fi
if [[ ! -f $environment/complete ]]; then
  rm -rf "$environment"
  logged "build-$tag" "$python" -m venv --without-pip "$environment"
  logged "build-$tag" "$tools/python" -m pip --python "$environment/bin/python" install --require-hashes \
    --only-binary :all: -r "$bundle_scripts/build.txt"
  touch "$environment/complete"
fi
# Wheels may be built side by side.
exec 8>&-

# Debian's pyconfig.h includes <MACHINE-linux-gnu/python3.11/pyconfig.h>, which lies among the headers of this machine's
# glibc; only this one is taken from there. The one of x86-64 serves for ARM, too: they differ in nothing that an
# extension depends on.
readonly headers=$environment/debian/$machine-linux-gnu
debian=/usr/include/$(uname -m)-linux-gnu/${include##*/}
flags=
if [[ -d $debian && $include == /usr/include/* ]]; then
  mkdir -p "$headers"
  ln -sfn "$debian" "$headers/${include##*/}"
  flags="-isystem ${headers%/*}"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"${on[@]}" "$bundle_scripts/all_notices.sh" "$environment/bin/python" "$scratch/notices"

say "building the wheel for Python $tag on $machine"
if [[ $machine != "$(uname -m)" ]]; then
  # The build asks these before this machine's Python.
  suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
  export _PYTHON_HOST_PLATFORM=linux-$machine SETUPTOOLS_EXT_SUFFIX=${suffix/$(uname -m)/$machine}
fi
variables=(PATH="$environment/bin:$tools:$PATH" CC=spdl-cc CXX=spdl-c++ CXXFLAGS="$flags" LDFLAGS="$unwinder"
  PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig")
logged "wheel-$tag-$machine" "${on[@]}" env "${variables[@]}" "$tools/python" -m pip --python "$environment/bin/python" wheel \
  --no-deps --no-build-isolation --wheel-dir "$scratch" \
  -C build-dir="$bundle_root/build/bundle/${prefix##*/}/{wheel_tag}" -C cmake.define.SPDL_PICTURE_LIBRARIES="$prefix" \
  -C cmake.define.SPDL_NOTICES="$scratch/notices" "${@:3}" "$bundle_root"
mkdir -p "$folder"
# auditwheel knows only the platforms of the machine that it runs on.
auditwheel="import platform, sys; platform.machine = lambda: '$machine'
from auditwheel.main import main; sys.exit(main())"
LD_LIBRARY_PATH=$prefix/lib PATH=$tools:$PATH logged "repair-$tag-$machine" "$tools/python" -c "$auditwheel" repair --plat "$platform" --only-plat \
  --wheel-dir "$scratch/repaired" "$scratch"/spdl_turbo-*.whl
wheels=("$scratch"/repaired/*.whl)
logged "metadata-$tag-$machine" "$tools/python" -B "$bundle_scripts/metadata.py" "${wheels[@]}"
mv "${wheels[@]}" "$folder/"
printf '%s\n' "$folder/${wheels[0]##*/}"
