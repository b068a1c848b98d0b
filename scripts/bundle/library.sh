#!/usr/bin/env bash
# Fetches one of the pinned libraries, builds it, and installs it with its notices. CC and CXX name the compilers, CMAKE
# and NINJA the commands. SPDL_DAV1D is shared or static.
# Usage: scripts/bundle/library.sh PREFIX NAME [SOURCE]   (SOURCE: where it is unpacked; it is only built and installed)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

readonly prefix=$1 name=$2 source=${3:-} cmake=${CMAKE:-cmake}

# What our extension does not call is left out of it.
readonly sections="-ffunction-sections -fdata-sections"

# configure FOLDER OPTION...: what the library itself needs comes from PREFIX first.
configure() {
  local folder=$1 make_program=()
  shift
  [[ -z ${NINJA:-} ]] || make_program=(-DCMAKE_MAKE_PROGRAM="$NINJA")
  "$cmake" -S "$folder" -B "$folder/build-spdl" -G Ninja "${make_program[@]}" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_C_VISIBILITY_PRESET=hidden -DCMAKE_CXX_VISIBILITY_PRESET=hidden \
    -DCMAKE_C_FLAGS="$sections" -DCMAKE_CXX_FLAGS="$sections" \
    -DBUILD_SHARED_LIBS=OFF "$@"
}

# compile FOLDER OPTION...
compile() { "$cmake" --build "$1/build-spdl" --parallel "$(nproc)" "${@:2}"; }

# with_cmake FOLDER OPTION...
with_cmake() {
  configure "$@"
  compile "$1"
  "$cmake" --install "$1/build-spdl"
}

build_zlib() {
  cd "$source"
  CFLAGS="-O3 -fPIC" ./configure --static --prefix="$prefix"
  make -j"$(nproc)" libz.a
  make install
}

# Our own entropy decoder works inside the library and wants its private header.
build_libjpeg_turbo() {
  local folder
  folder=$source/lib/libjpeg-turbo-$(pin libjpeg-turbo version)
  with_cmake "$folder" -DENABLE_SHARED=OFF -DREQUIRE_SIMD=ON -DWITH_TURBOJPEG=OFF -DWITH_TOOLS=OFF \
    -DWITH_TESTS=OFF
  install -m 644 "$folder/src/jpegint.h" "$prefix/include/"
}

# Told that the feature evex512 is there, it does not ask clang for it, which has dropped the name.
build_libdeflate() {
  with_cmake "$source" -DLIBDEFLATE_BUILD_SHARED_LIB=OFF -DLIBDEFLATE_BUILD_GZIP=OFF -DCMAKE_C_FLAGS="$sections -D__EVEX512__"
}

# Nobody traces it, and the hooks for that would be symbols which any library of the process could define.
build_libzstd() {
  with_cmake "$source/build/cmake" -DZSTD_BUILD_SHARED=OFF -DZSTD_BUILD_PROGRAMS=OFF -DZSTD_BUILD_DICTBUILDER=OFF \
    -DZSTD_LEGACY_SUPPORT=OFF -DCMAKE_C_FLAGS="$sections -DZSTD_TRACE=0"
}

# The version of the symbols is our own: a process may hold another dav1d whose symbols are open to all libraries.
build_dav1d() {
  cd "$source"
  echo 'SPDL_DAV1D { global: dav1d_*; local: *; };' >versions.map
  meson setup build-spdl --prefix="$prefix" --libdir=lib --buildtype=release --default-library="$SPDL_DAV1D" \
    -Denable_tools=false -Denable_tests=false -Dc_args="$sections" -Dc_link_args="-Wl,--version-script=$PWD/versions.map"
  meson install -C build-spdl --strip
}

# What decodes, and what finds the pictures. To install it would take the encoder, too.
build_libwebp() {
  local part options=()
  for part in ANIM_UTILS CWEBP DWEBP EXTRAS GIF2WEBP IMG2WEBP LIBWEBPMUX VWEBP WEBPINFO WEBPMUX; do
    options+=("-DWEBP_BUILD_$part=OFF")
  done
  configure "$source" "${options[@]}" -DCMAKE_OPTIMIZE_DEPENDENCIES=ON
  compile "$source" --target webpdecoder webpdemux
  install -m 644 "$source"/build-spdl/libwebp{decoder,demux}.a "$prefix/lib/"
  install -m 644 -D -t "$prefix/include/webp" "$source"/src/webp/{decode,demux,mux_types,types}.h
}

# What it would install is a shared library and a program, too.
build_libyuv() {
  configure "$source" -DCMAKE_DISABLE_FIND_PACKAGE_JPEG=ON
  compile "$source" --target yuv
  install -m 644 "$source/build-spdl/libyuv.a" "$prefix/lib/"
  cp -a "$source/include/." "$prefix/include/"
}

# It hands what it reads to a function of ours, in the place of dav1d's.
build_libavif() {
  with_cmake "$source" -DCMAKE_C_FLAGS="$sections -Ddav1d_send_data=spdl_dav1d_send_data" \
    -DAVIF_BUILD_APPS=OFF -DAVIF_BUILD_TESTS=OFF -DAVIF_CODEC_DAV1D=SYSTEM -DAVIF_LIBYUV=SYSTEM -DAVIF_LIBSHARPYUV=OFF
}

build_openjpeg() { with_cmake "$source" -DBUILD_CODEC=OFF -DBUILD_TESTING=OFF; }

# With what PREFIX and libdeflate and libzstd give it. WebP inside is left out, as Pillow leaves it out.
build_libtiff() {
  with_cmake "$source" -Dtiff-tools=OFF -Dtiff-tests=OFF -Dtiff-contrib=OFF -Dtiff-docs=OFF -Dtiff-cxx=OFF -Djbig=OFF \
    -Dlerc=OFF -Dlzma=OFF -Dwebp=OFF -Dlibdeflate=ON -Dzstd=ON -Djpeg=ON
}

# The encoder of VP9 alone: FFmpeg decodes it itself, and faster.
build_libvpx() {
  local target=x86_64-linux-gcc
  [[ $(uname -m) == x86_64 ]] || target=arm64-linux-gcc
  mkdir -p "$source/build-spdl"
  cd "$source/build-spdl"
  LD=$CC ../configure --prefix="$prefix" --target=$target --enable-pic \
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

if [[ -n $source ]]; then
  "build_${name//-/_}"
  exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
archive=$("$bundle_scripts/fetch.sh" "$name")
say "building $name $(pin "$name" version)"
unpack "$archive" "$folder/$name"
kind=${prefix##*/}
logged "$name-${kind%%-*}" "$0" "$prefix" "$name" "$folder/$name"
"$bundle_scripts/notices.sh" "$name" "$folder/$name" "$prefix/notices"
