#!/usr/bin/env bash
# Prepares a checkout so that one make target can run: system libraries, .venv, dependencies, the package.
# Usage: scripts/setup.sh demo|test|ray|pages|conformance|lint|typecheck|bench|docs|wheel|bundle|release
# wheel prepares a wheel on the system's libraries, bundle one that includes them, release the tests of the latter.
# bundle and release need no .venv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly profile=${1:?usage: scripts/setup.sh demo|test|ray|pages|conformance|lint|typecheck|bench|docs|wheel|bundle|release}
readonly python=.venv/bin/python
readonly stamps=.venv/.spdl-setup
readonly logs=build/logs
# The newest release that the tests were run with. Another one may round differently.
readonly torch="torch==2.13.0"

# The needs of each target. native: compilers and codec libraries. package: the editable install.
groups=() extras="" native=no package=no optional_system=() optional_commands=()
# The consequence of missing optional packages. The released reference, one of the demo's contenders, links libavdevice,
# and so does torchcodec.
without="the released spdl cannot be compared here"
case $profile in
  lint) groups=(lint) ;;
  typecheck) groups=(typecheck) ;;
  wheel) groups=(build) native=yes ;;
  docs) groups=(build) extras=docs native=yes package=yes ;;
  bundle) ;;
  release)
    optional_system=(libavdevice:libavdevice-dev openssl:libssl-dev zlib:zlib1g-dev libffi:libffi-dev)
    optional_commands=(ffmpeg debootstrap)
    without="torchcodec cannot be tried beside ours, a Python 3.13t that is built from source lacks modules, the tests of audio and video are skipped, or Debian's Python 3.14 and 3.15 cannot be had"
    ;;
  test)
    groups=(build test store) extras=demo native=yes package=yes optional_commands=(ffmpeg)
    without="the tests of audio and video are skipped"
    ;;
  ray) groups=(build test) extras=ray native=yes package=yes ;;
  pages)
    groups=(build test pages) native=yes package=yes optional_commands=(ffmpeg)
    without="the tests of audio and video are skipped"
    ;;
  conformance) groups=(build conformance) native=yes package=yes ;;
  demo) groups=(build) extras=demo native=yes package=yes optional_system=(libavdevice:libavdevice-dev) ;;
  bench) groups=(build bench) extras=bench native=yes package=yes optional_system=(libavdevice:libavdevice-dev) ;;
  *)
    printf 'spdl setup: unknown target %q; known are demo, test, ray, pages, conformance, lint, typecheck, bench, docs, wheel, bundle, release\n' "$profile" >&2
    exit 2
    ;;
esac

say() { printf 'spdl setup: %s\n' "$*"; }

fail() {
  printf 'spdl setup: %s\n' "$@" >&2
  exit 1
}

# logged NAME MESSAGE COMMAND...: prints one plain line, and writes all other output to a log that is shown on failure.
logged() {
  local log=$logs/$1.log message=$2
  shift 2
  say "$message"
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 60 "$log" >&2
    fail "failed: $message" "the whole output is in $log"
  fi
}

# ---- system packages -------------------------------------------------------------------------------------------

# pkg-config module with its least version (FFmpeg 5.1, libjpeg-turbo 2.1), and the Debian package that has it.
# benchmarks/images.py measures bare decoding with libturbojpeg.
readonly libraries=(
  "libavformat >= 59.27:libavformat-dev"
  "libavcodec >= 59.37:libavcodec-dev"
  "libavfilter >= 8.44:libavfilter-dev"
  "libavutil >= 57.28:libavutil-dev"
  "libswscale >= 6.7:libswscale-dev"
  "libswresample >= 4.7:libswresample-dev"
  "libturbojpeg >= 2.1:libturbojpeg0-dev"
)

# Prints the packages of the "module:package" arguments that pkg-config does not find.
missing_libraries() {
  local entry
  for entry in "$@"; do
    pkg-config --exists "${entry%:*}" 2>/dev/null || printf '%s\n' "${entry##*:}"
  done
}

# Prints those of the commands that are missing. Each is in the package of its name.
missing_commands() {
  local name
  for name in "$@"; do
    command -v "$name" >/dev/null || echo "$name"
  done
}

# nasm: without it, FFmpeg and libjpeg-turbo lose most of their speed when built from source.
missing_tools() {
  command -v pkg-config >/dev/null || echo pkg-config
  command -v nasm >/dev/null || echo nasm
  command -v make >/dev/null || echo make
  command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || echo g++
}

# sudo may ask for a password only if somebody is there to type it.
[[ -t 0 ]] && readonly interactive=yes || readonly interactive=no

as_root() {
  if [[ $EUID -eq 0 ]]; then
    "$@"
  elif [[ $interactive == yes ]]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update || echo "apt-get update failed; trying with the lists at hand"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
}

install_system() {
  if ! command -v apt-get >/dev/null; then
    fail "missing: $*" \
      "this machine has no apt-get, the only package manager this script knows. Install these with yours and run make again:" \
      "  a C++20 compiler, nasm, pkg-config, Python's headers and its venv module" \
      "  FFmpeg 5.1 to 8 with headers (libavformat, libavcodec, libavfilter, libavutil, libswscale, libswresample)" \
      "  libjpeg-turbo 2.1 or newer with headers (libturbojpeg)"
  fi
  if [[ $EUID -ne 0 ]] && ! command -v sudo >/dev/null; then
    fail "missing: $*" "installing them takes root and there is no sudo here; run this as root, then make again:" \
      "  apt-get install --no-install-recommends $*"
  fi
  logged apt "installing system packages: $*" apt_install "$@"
}

setup_system() {
  local missing
  mapfile -t missing < <(missing_tools; missing_libraries "${libraries[@]}")
  [[ ${#missing[@]} -eq 0 ]] || install_system "${missing[@]}"
}

setup_optional_system() {
  local missing
  mapfile -t missing < <(missing_libraries "${optional_system[@]}"; missing_commands "${optional_commands[@]}")
  if [[ ${#missing[@]} -gt 0 ]]; then
    (install_system "${missing[@]}") || say "going on without ${missing[*]}: $without"
  fi
}

# ---- Python ----------------------------------------------------------------------------------------------------

is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
  local candidate
  if [[ -n ${PYTHON:-} ]]; then
    is_recent "$PYTHON" || fail "PYTHON=$PYTHON is not a Python 3.11 or newer"
    command -v "$PYTHON"
    return
  fi
  for candidate in python3 python3.11 python3.12 python3.13 python3.14 /usr/bin/python3; do
    if command -v "$candidate" >/dev/null && is_recent "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  fail "no Python 3.11 or newer found (looked for python3 and python3.11 to python3.14)." \
    "Install one, or name it: make ... PYTHON=/path/to/python3"
}

has_headers() {
  "$1" -c 'import os, sysconfig as s; raise SystemExit(not os.path.exists(os.path.join(s.get_path("include"), "Python.h")))'
}

# Debian splits its interpreter into packages. Any other build comes whole, and apt could not complete it.
require_python_part() {
  local base=$1 part=$2 what=$3 version
  version=$("$base" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  case $(realpath "$("$base" -c 'import sys; print(sys.executable)')") in
    /usr/bin/*) install_system "python$version-$part" ;;
    *) fail "$base lacks $what; use a complete Python 3.11 or newer: make ... PYTHON=/path/to/python3" ;;
  esac
}

setup_venv() {
  if is_recent $python && $python -m pip --version >/dev/null 2>&1; then
    return
  fi
  local base
  base=$(find_python)
  "$base" -c 'import ensurepip, venv' 2>/dev/null || require_python_part "$base" venv "the modules venv and ensurepip"
  logged venv "creating .venv with $("$base" --version)" "$base" -m venv --clear .venv
}

setup_pip() {
  # --group came with pip 25.1.
  if ! $python -c 'import pip, sys; sys.exit(tuple(map(int, pip.__version__.split(".")[:2])) < (25, 1))'; then
    logged pip "upgrading pip" $python -m pip install --upgrade "pip>=25.1"
  fi
}

has_torch() { $python -c 'import importlib.util as u; raise SystemExit(u.find_spec("torch") is None)'; }

# A CPU build costs 200 MB, a CUDA build several GB. That is too much to take unasked for the few tests and the one plot
# line that need it.
setup_torch() {
  local report=$logs/torch.json
  if has_torch; then
    return
  fi
  if ! $python -m pip install --dry-run --quiet --report "$report" "$torch" >"$logs/torch.log" 2>&1 </dev/null; then
    say "skipping PyTorch: pip finds no $torch for this platform ($logs/torch.log); what needs it is left out"
  elif grep -qE '"name": "(nvidia|cuda|triton)' "$report"; then
    say "skipping PyTorch: pip would take a CUDA build of several GB; what needs it is left out. To have it:" \
      "$python -m pip install '$torch'"
  else
    logged torch "installing $torch" $python -m pip install "$torch"
  fi
}

has_cmake() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n 's/^cmake version \([0-9.]*\).*/\1/p')
  [[ -n $version && $(printf '3.25\n%s\n' "$version" | sort -V | head -n 1) == 3.25 ]]
}

# ---- stamps ----------------------------------------------------------------------------------------------------

digest() { sha256sum | cut -d ' ' -f 1; }

dependencies_key() { cat pyproject.toml scripts/setup.sh | digest; }

# An editable install runs the Python files in place, but remembers the list of files.
package_key() {
  {
    cat pyproject.toml CMakeLists.txt
    find native tests/native -type f -not -name '*.py*' -exec sha256sum {} + | sort -k 2
    find src -name '*.py' | sort
  } | digest
}

is_fresh() { [[ -f $stamps/$1 && $(<"$stamps/$1") == "$2" ]]; }

mark() { printf '%s\n' "$2" >"$stamps/$1"; }

# ---- the steps, in order ---------------------------------------------------------------------------------------

setup_dependencies() {
  local key arguments=() tools=() group
  key=$(dependencies_key)
  if is_fresh "dependencies-$profile" "$key"; then
    return
  fi
  for group in "${groups[@]}"; do
    arguments+=(--group "$group")
  done
  if [[ $native == yes ]]; then
    # What builds, to begin with.
    has_cmake || tools+=("cmake>=3.25")
    logged "tools-$profile" "installing what builds spdl" $python -m pip install --group build "${tools[@]}"
  fi
  if [[ $profile == pages ]]; then
    # First, as the packages of this group would have pip take a PyTorch with CUDA.
    setup_torch
    has_torch || fail "the programs need PyTorch, and it was not installed, for the reason above"
    arguments+=("$torch")
  fi
  if [[ $package == yes ]]; then
    # While pip downloads. Whoever needs them waits for the lock.
    PATH=$PWD/.venv/bin:$PATH scripts/bundle/picture_libraries.sh >/dev/null 2>&1 </dev/null &
  fi
  logged "dependencies-$profile" "installing Python packages for make $profile" $python -m pip install "${arguments[@]}"
  if [[ $profile == test || $profile == bench ]]; then
    setup_torch
  fi
  if [[ $package == yes ]]; then
    install_package "building spdl and installing it with its dependencies" ".${extras:+[$extras]}"
  fi
  mark "dependencies-$profile" "$key"
}

# The build does this by itself. Done here, it can say why if it has to do without.
setup_picture_libraries() {
  local log=$logs/picture-libraries.log
  if ! PATH=$PWD/.venv/bin:$PATH scripts/bundle/picture_libraries.sh >"$log" 2>&1 </dev/null; then
    say "going on with the system's libraries, by which JPEG is decoded a quarter slower and other pictures may differ." \
      "The pinned ones cannot be built:"
    cat "$log"
  fi
}

# Without build isolation, the build folder keeps its compiled files, and a change compiles only itself.
install_package() {
  local key
  key=$(package_key)
  setup_picture_libraries
  # The build may have to make the picture libraries after all, with the tools of this environment.
  logged package "$1" env PATH="$PWD/.venv/bin:$PATH" $python -m pip install --no-build-isolation -C cmake.define.SPDL_TEST_PROGRAMS=ON --editable "$2"
  mark package "$key"
}

setup_package() {
  if ! is_fresh package "$(package_key)"; then
    install_package "rebuilding spdl, its native part or its list of files changed" .
  fi
}

mkdir -p $logs
if command -v flock >/dev/null; then
  exec 9>build/setup.lock
  flock 9
fi

if [[ $profile == bundle || $profile == release ]]; then
  mapfile -t missing < <(missing_tools; command -v xz >/dev/null || echo xz-utils)
  [[ ${#missing[@]} -eq 0 ]] || install_system "${missing[@]}"
  setup_optional_system
  # The tools that compile are installed into an environment of their own, by the first suitable Python on PATH.
  base=$(PYTHON="" find_python)
  "$base" -c 'import ensurepip, venv' 2>/dev/null || require_python_part "$base" venv "the modules venv and ensurepip"
  exit
fi
if [[ $native == yes ]]; then
  setup_system
  setup_optional_system
fi
setup_venv
mkdir -p $stamps
if [[ $native == yes ]]; then
  has_headers $python || require_python_part $python dev "its headers"
fi
setup_pip
setup_dependencies
if [[ $package == yes ]]; then
  setup_package
fi
