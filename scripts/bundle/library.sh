#!/usr/bin/env bash
# Builds one of the bundled libraries from its unpacked source and installs it. Wants the folder of tools.sh on PATH.
# Usage: scripts/bundle/library.sh NAME SOURCE PREFIX
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

readonly name=$1 source=$2 prefix=$3

# with_cmake FOLDER OPTION...
with_cmake() {
  local folder=$1 build=$1/build-spdl
  shift
  cmake -S "$folder" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_C_COMPILER=spdl-cc -DCMAKE_CXX_COMPILER=spdl-c++ \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_C_VISIBILITY_PRESET=hidden -DBUILD_SHARED_LIBS=OFF "$@"
  cmake --build "$build"
  cmake --install "$build"
}

build_zlib() {
  cd "$source"
  CC=spdl-cc CFLAGS="-O3 -fPIC" ./configure --static --prefix="$prefix"
  make -j"$(nproc)" libz.a
  make install
}

# Our own entropy decoder works inside the library and wants its private header.
build_libjpeg_turbo() {
  local folder
  folder=$source/lib/libjpeg-turbo-$(pin libjpeg-turbo version)
  with_cmake "$folder" -DENABLE_SHARED=OFF -DREQUIRE_SIMD=ON -DWITH_TOOLS=OFF -DWITH_TESTS=OFF
  install -m 644 "$folder/src/jpegint.h" "$prefix/include/"
}

# Told that the feature evex512 is there, it does not ask clang for it, which has dropped the name.
build_libdeflate() {
  with_cmake "$source" -DLIBDEFLATE_BUILD_SHARED_LIB=OFF -DLIBDEFLATE_BUILD_GZIP=OFF -DCMAKE_C_FLAGS=-D__EVEX512__
}

build_libzstd() {
  with_cmake "$source/build/cmake" -DZSTD_BUILD_SHARED=OFF -DZSTD_BUILD_PROGRAMS=OFF -DZSTD_LEGACY_SUPPORT=OFF
}

build_dav1d() {
  cd "$source"
  CC=spdl-cc meson setup build-spdl --prefix="$prefix" --libdir=lib --buildtype=release --default-library=static \
    -Denable_tools=false -Denable_tests=false
  meson install -C build-spdl
}

# The encoder of VP9 alone: FFmpeg decodes it itself, and faster.
build_libvpx() {
  local target=x86_64-linux-gcc
  [[ $(uname -m) == x86_64 ]] || target=arm64-linux-gcc
  mkdir -p "$source/build-spdl"
  cd "$source/build-spdl"
  CC=spdl-cc CXX=spdl-c++ LD=spdl-cc ../configure --prefix="$prefix" --target=$target --enable-pic \
    --enable-runtime-cpu-detect --disable-examples --disable-tools --disable-docs --disable-unit-tests \
    --disable-vp8 --disable-vp9-decoder --disable-webm-io --disable-libyuv
  make -j"$(nproc)"
  make install
}

build_opus() { with_cmake "$source" -DOPUS_BUILD_PROGRAMS=OFF -DOPUS_BUILD_TESTING=OFF; }

build_ffmpeg() {
  mkdir -p "$source/build-spdl"
  cd "$source/build-spdl"
  "$bundle_scripts/ffmpeg.sh" "$source" "$prefix"
}

"build_${name//-/_}"
