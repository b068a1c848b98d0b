#!/usr/bin/env bash
# Packs what a release owes to those who get its wheel: the sources of the bundled libraries, as pinned, their licences, and
# the scripts that build them. The licence of FFmpeg asks for it, and for all that is linked into it. And our own, as a
# source distribution.
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
cp -a "$("$bundle_scripts/libraries.sh")/notices" "$scratch/$name/licenses"
# There the scripts lie elsewhere than in a wheel.
sed -E 's#`scripts/([a-z_]+\.)#`scripts/bundle/\1#g; s#`(COPYING.LGPLv2.1|configuration.txt)`#`licenses/ffmpeg/\1`#g' \
  "$bundle_scripts/REPLACING.md" >"$scratch/$name/README.md"
while read -r library _; do
  # Python is none of what is in the wheel.
  if [[ $library != python ]]; then
    cp "$("$bundle_scripts/fetch.sh" "$library")" "$scratch/$name/sources/"
  fi
done < <(grep -v '^#' "$bundle_scripts/sources.txt")
tar -cf "$folder/$name.tar" --sort=name --owner=0 --group=0 --mtime=2000-01-01 -C "$scratch" "$name"
printf '%s\n' "$folder/$name.tar"

"$(command -v python3)" -m venv "$scratch/environment"
logged sdist "$scratch/environment/bin/python" -m pip install --quiet 'build>=1.2'
logged sdist "$scratch/environment/bin/python" -m build --sdist --outdir "$folder" "$bundle_root"
printf '%s\n' "$folder/spdl_turbo-$version.tar.gz"
