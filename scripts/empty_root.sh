#!/usr/bin/env bash
# Installs a wheel in an empty Debian, where nothing but Python is, and runs the README's programs there as they are
# written: first that of one's own functions, with numpy alone, then those of the loaders, with PyTorch, which is fetched.
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
# Of PyTorch the build for CPUs, which pip finds there if no setting of this machine says otherwise.
python3 -m pip download --quiet --only-binary :all: --python-version "$version" --dest "$root/work/wheels" \
  --extra-index-url https://download.pytorch.org/whl/cpu numpy "${TORCH:-torch==2.13.0+cpu}"
awk -v folder="$root/work" '/^```python$/ { number++; inside = 1; next } /^```$/ { inside = 0 }
  inside { print > (folder "/" number ".py") }' README.md
printf 'print(tuple(images.shape), images.dtype)\n' >>"$root/work/1.py"
# The commands are those of the root.
# shellcheck disable=SC2016
chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root /bin/bash -euc '
cd /work
python3 -m venv env
install() { env/bin/pip --disable-pip-version-check install --quiet --no-index --find-links wheels "$@"; }
install spdl-turbo
env/bin/python 2.py
install "spdl-turbo[torch]"
env/bin/python 1.py
env/bin/python 3.py
' | tee "$root/said"
diff <(tail -n 1 "$root/said") <(printf '(%d, 3, 224, 224) torch.float32\n' 32) || exit 1
printf 'it runs in an empty %s with Python %s\n' "$suite" "$version"
