#!/usr/bin/env bash
# Runs a command in a Debian sid, which has Python 3.14 and 3.15, with this checkout and the caches in their places. The
# Debian is made once, with the versions of that day, and kept with the wheel's libraries until it is removed.
# Usage, as root: scripts/debian_root.sh COMMAND [ARGUMENT...]
#   e.g. scripts/debian_root.sh python3.15 --version
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/bundle/places.sh"

[[ $# -gt 0 ]] || fail "usage: scripts/debian_root.sh COMMAND [ARGUMENT...]"
# For each Python: what builds extensions, and makes environments. Then what tests call: compilers of stand-ins for
# libraries.
readonly packages=(python3.14-dev python3.14-venv python3.15-dev python3.15-venv ca-certificates gcc git libc6-dev)
root=$bundle_cache/debian-$(printf '%s\n' "${packages[@]}" | digest)
readonly root

[[ $EUID -eq 0 ]] || fail "a Debian in a folder needs root: sudo $0 $*"

if [[ ! -f $root/complete ]]; then
  command -v debootstrap >/dev/null || fail "there is no debootstrap: apt-get install debootstrap"
  lock "${root##*/}"
fi
if [[ ! -f $root/complete ]]; then
  say "making a Debian sid with Python 3.14 and 3.15"
  rm -rf --one-file-system "$root"
  logged debian-root debootstrap --variant=minbase sid "$root"
  cp -L /etc/resolv.conf "$root/etc/"
  mkdir "$root/host"
  # A copy of the archive may be some days old.
  printf 'Acquire::Check-Valid-Until "false";\nAcquire::Check-Date "false";\n' >"$root/etc/apt/apt.conf.d/99dates"
  logged debian-packages chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
    -o Dpkg::Options::=--force-unsafe-io "${packages[@]}"
  chroot "$root" apt-get clean
  # What is trusted here is trusted there.
  [[ ! -f /etc/ssl/certs/ca-certificates.crt ]] || cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  touch "$root/complete"
fi

# The lock, if it was taken.
exec 8>&-

exec "$bundle_root/scripts/in_root.sh" "$root" "$@"
