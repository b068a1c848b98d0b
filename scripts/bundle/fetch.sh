#!/usr/bin/env bash
# Downloads the archive of one entry of sources.txt, unless it is there, checks it, and prints where it lies.
# Usage: scripts/bundle/fetch.sh NAME
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

readonly name=${1:?usage: scripts/bundle/fetch.sh NAME}
sha256=$(pin "$name" sha256) || fail "no source is called $name in $bundle_scripts/sources.txt"
url=$(pin "$name" url)
readonly sha256 url archive=$bundle_cache/sources/${url##*/}

is_right() { [[ -f $1 && $(sha256sum "$1" | cut -d ' ' -f 1) == "$sha256" ]]; }

download() {
  python3 - "$1" "$2" <<'PYTHON'
import shutil, sys, urllib.request

with urllib.request.urlopen(sys.argv[1], timeout=120) as response, open(sys.argv[2], "wb") as file:
    shutil.copyfileobj(response, file)
PYTHON
}

# A release's archive of sources brings them along.
readonly brought=$bundle_root/sources/${url##*/}
if [[ -f $brought ]]; then
  # Whoever has changed it, as its licence allows, is not to get the unchanged one in its place.
  is_right "$brought" || fail "$brought is not what sources.txt pins (SHA-256 $sha256): to build from it, put its own" \
    "hash there ($(sha256sum "$brought" | cut -d ' ' -f 1)); to build from the original, remove it"
  printf '%s\n' "$brought"
  exit
fi

mkdir -p "$bundle_cache/sources"
if ! is_right "$archive"; then
  tried=()
  for place in "$url" "https://snapshot.debian.org/file/$(pin "$name" sha1)"; do
    say "downloading $place"
    if ! error=$(download "$place" "$archive.$$" 2>&1); then
      tried+=("$place: ${error##*$'\n'}")
    elif ! is_right "$archive.$$"; then
      tried+=("$place: what it has is not what sources.txt pins (SHA-256 $sha256)")
    else
      mv "$archive.$$" "$archive"
      break
    fi
    rm -f "$archive.$$"
  done
  is_right "$archive" || fail "cannot download $name:" "$(printf '\n  %s' "${tried[@]}")" \
    $'\n'"Put the file with that hash there by hand: $archive"
fi
printf '%s\n' "$archive"
