#!/usr/bin/env bash
# Installs what tools.txt pins into a virtual environment, unless it is there, and prints the folder of its commands.
# Among them are spdl-cc and spdl-c++: clang for the glibc that old clusters have, whatever this machine's own is.
# Usage: scripts/bundle/tools.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

# The glibc of RHEL 8. manylinux_2_28 in the tag of the wheel stands for it.
readonly target=$(uname -m)-linux-gnu.2.28
readonly tools=$bundle_cache/tools-$(digest "$bundle_scripts/tools.txt" "$bundle_scripts/tools.sh")

# zig takes what the compiler finds undefined as a reason to stop the program, and keeps the frame pointer.
write_compiler() {
  cat >"$1" <<SCRIPT
#!/bin/sh
export ZIG_GLOBAL_CACHE_DIR="$bundle_cache/zig" ZIG_LOCAL_CACHE_DIR="$bundle_cache/zig"
exec "$2" $3 -target $target -fno-sanitize=undefined -fomit-frame-pointer "\$@"
SCRIPT
  chmod +x "$1"
}

lock tools
if [[ ! -f $tools/complete ]]; then
  say "installing the tools that compile the bundled libraries"
  rm -rf "$tools"
  logged tools python3 -m venv "$tools"
  logged tools "$tools/bin/python" -m pip install --require-hashes --only-binary :all: -r "$bundle_scripts/tools.txt"
  zig=$("$tools/bin/python" -c 'import ziglang, os; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
  write_compiler "$tools/bin/spdl-cc" "$zig" cc
  write_compiler "$tools/bin/spdl-c++" "$zig" c++
  touch "$tools/complete"
fi
printf '%s\n' "$tools/bin"
