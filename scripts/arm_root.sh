#!/usr/bin/env bash
# Runs a command in a Debian for 64-bit ARM, whose programs qemu emulates, with this checkout and the caches in their
# places. The Debian is made once for each suite and kept with the wheel's libraries until it is removed.
# Usage, as root: scripts/arm_root.sh SUITE COMMAND [ARGUMENT...]   (bookworm has Python 3.11, trixie 3.13)
#   e.g. scripts/arm_root.sh trixie python3 -c 'import platform; print(platform.machine())'
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/bundle/places.sh"

[[ $# -gt 1 ]] || fail "usage: scripts/arm_root.sh SUITE COMMAND [ARGUMENT...]"
readonly suite=$1 packages=python3,python3-venv,binutils
root=$bundle_cache/arm64-$suite-$(digest - <<<"$packages")
readonly root entry=/proc/sys/fs/binfmt_misc/spdl-aarch64

[[ $EUID -eq 0 ]] || fail "a Debian in a folder needs root: sudo $0 $*"
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) ||
  fail "there is no qemu-aarch64-static: apt-get install qemu-user-static"

make_root() {
  say "making a Debian $suite for 64-bit ARM"
  rm -rf --one-file-system "$root"
  logged "arm-$suite" debootstrap --arch=arm64 --foreign --variant=minbase --include=$packages "$suite" "$root"
  # The second stage would run for twenty minutes. What the packages have inside is enough to run Python.
  local package
  for package in "$root"/var/cache/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar --extract --directory "$root" --keep-directory-symlink
  done
  rm -f "$root"/var/cache/apt/archives/*.deb "$root/proc"
  mkdir -p "$root"/{proc,sys,dev,host,usr/local/bin}
  cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
  cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
  cp -L /etc/resolv.conf "$root/etc/"
  touch "$root/complete"
}

if [[ ! -f $root/complete ]]; then
  for tool in debootstrap dpkg-deb; do
    command -v $tool >/dev/null || fail "there is no $tool: apt-get install ${tool/-deb/}"
  done
  lock "${root##*/}"
  [[ -f $root/complete ]] || make_root
  exec 8>&-
fi

# Of what qemu can do, only the matrix instructions (SME) are left out: with those of qemu 7.2, nearly all products that
# NumPy's OpenBLAS computes are wrong.
readonly processor=max,sme=off

# The kernel is told that qemu runs ARM's programs until the last of these scripts ends.
forget() {
  if flock --exclusive --nonblock 7 && [[ -e $entry ]]; then
    echo -1 >"$entry"
  fi
}

[[ -e ${entry%/*}/register ]] || mount -t binfmt_misc none "${entry%/*}" ||
  fail "this kernel cannot be told to run other machines' programs (binfmt_misc)"
exec 7>"$bundle_cache/arm64-qemu.lock"
flock --shared 7
trap forget EXIT
# Bytes of an executable's head, which of their bits are looked at, and what runs it. F: that is found before the root
# changes. P: the program's own name is kept.
head='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
[[ -e $entry ]] || printf '%s' ":${entry##*/}:M::$head:$mask:$qemu:FP" >"${entry%/*}/register" || [[ -e $entry ]]
"$bundle_root/scripts/in_root.sh" "$root" env QEMU_CPU=$processor "${@:2}" 7>&-
