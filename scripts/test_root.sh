#!/usr/bin/env bash
# Installs a wheel in a new root of Debian 12 that has Python and nothing else, and runs the README's first program there.
# Needs root, and debootstrap (apt-get install debootstrap). The root has no network: pip gets numpy from a folder.
# Usage: scripts/test_root.sh WHEEL   (of Python 3.11, which Debian 12 has)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly wheel=${1:?usage: scripts/test_root.sh WHEEL}
readonly photos=${XDG_CACHE_HOME:-$HOME/.cache}/spdl/demo-photos-1
command -v debootstrap >/dev/null || { echo "debootstrap is missing: apt-get install debootstrap" >&2; exit 1; }
[[ $EUID -eq 0 ]] || { echo "only root may make and enter another root" >&2; exit 1; }
[[ -d $photos ]] || { echo "there are no photos in $photos: run make demo once" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
readonly root=$scratch/root
debootstrap --variant=minbase --include=python3,python3-venv bookworm "$root" >"$scratch/debootstrap.log" 2>&1 || {
  tail -n 20 "$scratch/debootstrap.log" >&2
  exit 1
}
mkdir -p "$root/wheels" "$root/home/user/photos"
cp "$wheel" "$root/wheels/"
python3 -m pip download --quiet --only-binary :all: --python-version 3.11 --platform manylinux_2_28_x86_64 \
  --platform manylinux2014_x86_64 --no-deps --dest "$root/wheels" 'numpy>=1.26'
cp -r "$photos" "$root/home/user/photos/all"
# The first program of the README.
sed -n '/^```python$/,/^```$/p' README.md | sed '1d; /^```$/,$d' >"$root/home/user/five.py"

run() { chroot "$root" /usr/bin/env -i HOME=/home/user PATH=/usr/bin:/bin "$@"; }

run python3 -m venv /env
run /env/bin/python -m pip install --quiet --no-index --find-links /wheels spdl-turbo
printed=$(run sh -c 'cd /home/user && /env/bin/python five.py')
printf '%s\n' "$printed"
[[ $printed == "(32, 224, 224, 3) uint8" ]] || { echo "the README says that it prints (32, 224, 224, 3) uint8" >&2; exit 1; }
