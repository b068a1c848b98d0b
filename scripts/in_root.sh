#!/usr/bin/env bash
# Runs a command in a system in a folder, with this checkout and the caches in their places, and mounts and processes of
# its own, which end with it. If the root has a folder named host, this machine's files are there, and its ffmpeg and
# ffprobe are this machine's.
# Usage, as root: scripts/in_root.sh ROOT COMMAND [ARGUMENT...]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/bundle/places.sh"

[[ $# -gt 1 ]] || fail "usage: scripts/in_root.sh ROOT COMMAND [ARGUMENT...]"
if [[ -d $1/host ]]; then
  # Clips that tests have made need not be made again, by another version of the encoder or by emulation.
  for name in ffmpeg ffprobe; do
    # The variable is the script's own.
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nexec /usr/sbin/chroot /host /usr/bin/env -C "$PWD" PATH=/usr/local/bin:/usr/bin:/bin %s "$@"\n' \
      $name >"$1/usr/local/bin/$name"
    chmod +x "$1/usr/local/bin/$name"
  done
fi

# What is mounted last may lie in /tmp. The shell stays: the first process has to wait for those that nobody else waits for.
# The variables are those of the inner shell.
# shellcheck disable=SC2016
exec unshare --mount --pid --fork --kill-child bash -euc '
root=$1 folder=$2 places=("${@:3:3}")
# Programs inside may have mounts of their own only below one.
mount --bind "$root" "$root"
cd "$root"
[[ ! -d host ]] || mount --rbind / host
for name in dev sys; do mount --rbind "/$name" "$name"; done
mount -t proc proc proc
for name in dev/shm run tmp; do mount -t tmpfs tmpfs "$name"; done
for place in "${places[@]}"; do
  mkdir -p "./$place"
  mount --bind "$place" "./$place"
done
if [[ -d host ]]; then
  # What a command of this machine reads and writes there is seen on both sides.
  mount --rbind tmp host/tmp
fi
variables=(HOME="$HOME" LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin)
while read -r name; do
  variables+=("$name=${!name}")
done < <(compgen -e | grep -E "^(SPDL_|PIP_|SSL_CERT_|XDG_CACHE_HOME$|.*_proxy$)")
# Below a changed root (chroot), programs could have no user of their own.
mkdir -p old
pivot_root . old
umount --lazy old
/usr/bin/env -i -C "$folder" "${variables[@]}" "${@:6}" || exit
' - "$1" "$PWD" "$bundle_root" "$bundle_cache" "${XDG_CACHE_HOME:-$HOME/.cache}/spdl" "${@:2}"
