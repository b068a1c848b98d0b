#!/usr/bin/env bash
# Packs what a release owes to those who get its wheel: the sources of the bundled libraries, as pinned, and the scripts
# that build them. The licence of FFmpeg asks for it, and for all that is linked into it.
# Usage: scripts/bundle/release_sources.sh [FOLDER]   (by default dist)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

readonly folder=${1:-$bundle_root/dist}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$bundle_root/pyproject.toml")
name=spdl_turbo-$version-sources
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$folder" "$scratch/$name"/{scripts,sources}
cp -a "$bundle_scripts" "$scratch/$name/scripts/bundle"
cp "$bundle_scripts/REPLACING.md" "$scratch/$name/README.md"
while read -r library _; do
  # Python is none of what is in the wheel.
  if [[ $library != python ]]; then
    cp "$("$bundle_scripts/fetch.sh" "$library")" "$scratch/$name/sources/"
  fi
done < <(grep -v '^#' "$bundle_scripts/sources.txt")
tar -cf "$folder/$name.tar" --sort=name --owner=0 --group=0 --mtime=2000-01-01 -C "$scratch" "$name"
printf '%s\n' "$folder/$name.tar"
