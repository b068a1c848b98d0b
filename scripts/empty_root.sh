#!/usr/bin/env bash
# Installs a wheel in an empty Debian, where nothing but Python is, and runs the README's first program there.
# Usage, as root: scripts/empty_root.sh WHEEL [SUITE]
#   (SUITE: a Debian whose python3 fits the wheel, by default bookworm, which has 3.11. Debian: apt-get install debootstrap)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wheel=$(realpath "${1:?usage: scripts/empty_root.sh WHEEL [SUITE]}")
readonly wheel suite=${2:-bookworm} photos=${XDG_CACHE_HOME:-$HOME/.cache}/spdl/demo-photos-1
if [[ $(id -u) != 0 || -z $(command -v debootstrap) ]]; then
  printf 'empty_root.sh needs root and debootstrap (Debian: apt-get install debootstrap)\n' >&2
  exit 1
fi
if [[ ! -d $photos ]]; then
  printf 'empty_root.sh needs the photos of the demo in %s: run make demo first\n' "$photos" >&2
  exit 1
fi

root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
debootstrap --variant=minbase --include=python3-venv "$suite" "$root" >"$root.log" 2>&1 || {
  printf 'empty_root.sh: debootstrap failed, see %s.log\n' "$root" >&2
  exit 1
}
mkdir -p "$root/work/photos" "$root/work/wheels"
cp -a "$photos" "$root/work/photos/all"
cp "$wheel" "$root/work/wheels/"
# All that it depends on. The root has no network.
version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
python3 -m pip download --quiet --no-deps --only-binary :all: --python-version "$version" --dest "$root/work/wheels" numpy
awk '/^```python$/ { inside = 1; next } /^```$/ && inside { exit } inside' README.md >"$root/work/first.py"
# The commands are those of the root.
# shellcheck disable=SC2016
chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root /bin/bash -euc '
cd /work
python3 -m venv env
env/bin/pip --disable-pip-version-check install --quiet --no-index --find-links wheels spdl-turbo
found=$(env/bin/python first.py)
echo "$found"
[[ $found == "(32, 224, 224, 3) uint8" ]]
'
printf 'it runs in an empty %s with Python %s\n' "$suite" "$version"
