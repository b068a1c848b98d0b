#!/usr/bin/env bash
# Copies the licence texts of one library from its source into OUT, and for FFmpeg the line that configured it.
# Usage: scripts/bundle/notices.sh NAME SOURCE OUT
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

readonly name=$1 source=$2 out=$3/$1

case $name in
  zlib) texts=(LICENSE) ;;
  libjpeg-turbo) texts=("lib/libjpeg-turbo-$(pin libjpeg-turbo version)"/{LICENSE.md,README.ijg}) ;;
  libzstd) texts=(LICENSE) ;;
  libvpx) texts=(LICENSE PATENTS AUTHORS) ;;
  ffmpeg) texts=(COPYING.LGPLv2.1 LICENSE.md CREDITS) ;;
  libwebp) texts=(COPYING PATENTS) ;;
  libyuv) texts=(LICENSE PATENTS) ;;
  libdeflate | dav1d | opus) texts=(COPYING) ;;
  libavif | openjpeg) texts=(LICENSE) ;;
  libtiff) texts=(LICENSE.md) ;;
  *) fail "no licence texts are known for $name" ;;
esac
mkdir -p "$out"
for text in "${texts[@]}"; do
  cp "$source/$text" "$out/"
done

if [[ $name == ffmpeg ]]; then
  sed -n 's/^#define FFMPEG_CONFIGURATION "\(.*\)"$/configure \1/p' "$source/build-spdl/config.h" >"$out/configuration.txt"
fi
