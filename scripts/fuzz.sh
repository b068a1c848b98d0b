#!/usr/bin/env bash
# Fuzzes the code that reads untrusted bytes, under AddressSanitizer and UndefinedBehaviorSanitizer, without Python.
# Usage: scripts/fuzz.sh NAME [--only ENDINGS] [--inputs N] [--seconds S] [--seed N] [--keep FOLDER]
#          (NAME: arrays, rows, segments, images or clips. ENDINGS: only these files of the corpus are changed, such as "jp2,j2k".)
#        scripts/fuzz.sh NAME --coverage [the same]   (prints which lines of our files the inputs reach, by gcov)
# The libraries are the wheel's if those are in the cache, otherwise those of builds from source, with the system's FFmpeg.
# SPDL_FUZZ_LIBRARIES names another folder of such libraries, or is empty ("") for the system's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly name=${1:?usage: scripts/fuzz.sh NAME [--coverage] [--only ENDINGS] [--inputs N] [--seconds S] [--seed N] [--keep FOLDER]}
shift
prefix=${SPDL_FUZZ_LIBRARIES-$(source scripts/bundle/places.sh && libraries_prefix)}
if [[ ! -v SPDL_FUZZ_LIBRARIES && ! -f $prefix/complete ]]; then
  prefix=$(scripts/bundle/picture_libraries.sh) || prefix=
fi
origin=system linking=() including=()
if [[ -f ${prefix:+$prefix/include/jpegint.h} ]]; then
  origin=${prefix##*/}
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
fi
case $name in
  arrays)
    sources=(native/archive/{compression,tar,zip_directory}.cpp
      native/arrays/{npy_header,wav_header}.cpp native/npz/npz.cpp
      native/core/{buffer,parallel}.cpp)
    libraries=(libdeflate libzstd)
    ;;
  rows)
    sources=(native/text/{packing,rows}.cpp)
    libraries=()
    ;;
  segments)
    sources=(native/image/segments/coco_masks.cpp)
    libraries=()
    ;;
  images | clips)
    mapfile -t sources < <(find native/{core,media,ffmpeg,image,av} native/bindings/backends.cpp native/gpu/jpeg_planes.cpp -name '*.cpp' | sort)
    libraries=(libavformat libavcodec libavfilter libavutil libswresample libswscale libdeflate libzstd)
    # As in native/picture_libraries.cmake.
    if [[ $origin != system ]]; then
      # As RPATH, which also applies to the libraries that these depend on.
      linking=("$prefix"/lib/lib{avif,yuv,webpdemux,webpdecoder,openjp2,tiff,jpeg,z}.a
        -Wl,--disable-new-dtags -Wl,-rpath,"$prefix/lib" -Wl,--exclude-libs,ALL)
      including=(-DSPDL_PINNED_LIBRARIES -isystem "$prefix/include" -isystem "$prefix/include/openjpeg-2.5")
      libraries+=(dav1d)
    else
      libraries+=(libjpeg libwebp libwebpdemux libavif libopenjp2 libtiff-4)
    fi
    ;;
  *)
    printf 'fuzz: unknown target %q; known are: arrays, rows, segments, images, clips\n' "$name" >&2
    exit 2
    ;;
esac

flavour=sanitized
flags=(-O1 -fsanitize=address,undefined -fno-sanitize-recover=all)
traced=(-fsanitize-coverage=trace-pc)
if [[ ${1:-} == --coverage ]]; then
  shift
  flavour=coverage
  flags=(-O0 -fsanitize=address)
  traced+=(--coverage)
fi

readonly folder=build/fuzz/$name-$flavour-$origin
mkdir -p "$folder"
root=$PWD
packages=()
if ((${#libraries[@]})); then
  read -ra packages < <(pkg-config --cflags --libs "${libraries[@]}")
fi
object_of() { printf %s "$folder/${1//\//_}.o"; }
compile() {
  local object
  object=$(object_of "$1")
  if [[ ! $object -nt $1 ]] || [[ -n $(find native fuzz -name '*.h' -newer "$object" -print -quit) ]]; then
    ${CMAKE_CXX_COMPILER_LAUNCHER:-} "${CXX:-c++}" -std=c++20 -g -Inative -Ifuzz "${@:2}" -c "$1" -o "$object"
  fi
}
for source in "${sources[@]}" "fuzz/$name.cpp"; do
  # Run as many compilers at once as there are cores.
  while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n; done
  compile "$source" "${flags[@]}" "${traced[@]}" "${including[@]}" "${packages[@]}" &
done
# The driver is not under test, and should cost little.
compile fuzz/driver.cpp -O2 &
wait
# Not all objects of the folder: those of sources that were renamed since are still in it.
mapfile -t objects < <(for source in "${sources[@]}" "fuzz/$name.cpp" fuzz/driver.cpp; do object_of "$source" && echo; done)
# Code is identified by its addresses, which must be the same in each run for a seed to mean something.
"${CXX:-c++}" "${flags[@]}" "${traced[@]:1}" -no-pie "${objects[@]}" "${linking[@]}" "${packages[@]}" -o "$folder/fuzz.$$"
# Another run may go on with the program that was there.
mv "$folder/fuzz.$$" "$folder/fuzz"

cd "$folder"
rm -f ./*.gcda
# Freed memory is held back from reuse for a while, but not hundreds of megabytes of it, which would be slow.
ASAN_OPTIONS=allocator_may_return_null=1:quarantine_size_mb=16:malloc_context_size=8 ./fuzz "$root/fuzz/corpus/$name" "$@"
if [[ $flavour == coverage ]]; then
  for source in "${sources[@]}"; do
    # Report only the source's own lines, not those of the headers that it includes.
    gcov --no-output --object-file "${source//\//_}.o" "$source" 2>/dev/null |
      awk -v file="$source" 'index($0, "File ") { own = index($0, file) > 0 } own && /^Lines executed/ { print file ": " $0; own = 0 }'
  done
fi
