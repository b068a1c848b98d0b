# Sourced by the scripts beside it: where they keep what they make, and how they report.
# Everything lies under one folder, so that removing it starts from nothing: $SPDL_BUNDLE_CACHE, by default
# ${XDG_CACHE_HOME:-~/.cache}/spdl/bundle.

bundle_scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bundle_root=$(cd "$bundle_scripts/../.." && pwd)
bundle_cache=${SPDL_BUNDLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/spdl/bundle}
mkdir -p "$bundle_cache/logs"

# What a shell has set for its own builds, such as -march=native, is not for what runs elsewhere.
unset CFLAGS CXXFLAGS CPPFLAGS LDFLAGS CMAKE_ARGS SKBUILD_CMAKE_ARGS SKBUILD_CMAKE_DEFINE

say() { printf 'spdl bundle: %s\n' "$*" >&2; }

fail() {
  say "$@"
  exit 1
}

# logged NAME COMMAND...: the output goes into a log, of which a failure shows the end.
logged() {
  local log=$bundle_cache/logs/$1.log
  shift
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 60 "$log" >&2
    fail "failed: $*; the whole output is in $log"
  fi
}

# Those that decode pictures and inflate archives: a wheel and a build from source have the same. None of the first needs
# another, and the ones that take long come first. The second need some of the first.
picture_libraries=(dav1d libjpeg-turbo libwebp libzstd libyuv openjpeg libdeflate zlib)
container_libraries=(libavif libtiff)

# unpack ARCHIVE FOLDER: the one folder that is inside becomes FOLDER. CMake unpacks whatever compressed it.
unpack() {
  local scratch
  scratch=$(mktemp -d)
  (cd "$scratch" && "${CMAKE:-cmake}" -E tar xf "$1")
  mv "$scratch"/* "$2"
  rmdir "$scratch"
}

# build_libraries NAMES...: builds libraries and their notices into the folder $prefix, which is complete then, or removed:
# first those of the first list, then those of the second, which may need them, and so on. Those of one list are built side
# by side, as much of what a build does takes one core.
build_libraries() {
  local names
  trap '[[ -f $prefix/complete ]] || rm -rf "$prefix"' EXIT
  rm -rf "$prefix"
  mkdir -p "$prefix"
  for names in "$@"; do
    # At 255, xargs begins no other.
    xargs -n 1 -P "$(nproc)" bash -c '"$@" || exit 255' - "$bundle_scripts/library.sh" "$prefix" <<<"$names"
  done
  touch "$prefix/complete"
}

# digest FILE...: what stands for these files' contents in the name of what is made from them.
digest() { cat "$@" | sha256sum | cut -c 1-12; }

# libraries_prefix: the folder of the libraries, which is complete if it holds a file of that name. It is named after all
# that decides what comes out.
libraries_prefix() {
  printf '%s/libraries-%s\n' "$bundle_cache" "$(cd "$bundle_scripts" && digest \
    sources.txt tools.txt tools.sh places.sh libraries.sh library.sh ffmpeg.sh notices.sh)"
}

# lock NAME: one process at a time makes a thing; the others wait and find it made.
lock() {
  if command -v flock >/dev/null; then
    exec 8>"$bundle_cache/$1.lock"
    flock 8
  fi
}

# pin NAME FIELD: a field of sources.txt: version, sha256, sha1 or url.
pin() {
  awk -v name="$1" -v field="$2" '
    BEGIN { column["version"] = 2; column["sha256"] = 3; column["sha1"] = 4; column["url"] = 5 }
    $1 == name { print $column[field]; found = 1 }
    END { exit !found }' "$bundle_scripts/sources.txt"
}
