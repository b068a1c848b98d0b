#!/usr/bin/env bash
# Prints a libgcc_s.so.1 to link C++ with, which it makes unless it is there: it has the names and no code.
#
# What unwinds the stack for an exception has to be what glibc itself unwinds it with when a thread ends in pthread_exit,
# which is how CPython before 3.14 ends threads at its own end: the system's libgcc_s. zig links LLVM's unwinder in its
# place, and -lgcc_s means that one, too; only a file that comes before it is taken instead.
# Usage: scripts/bundle/unwinder.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

readonly folder=$bundle_cache/unwinder-$(digest "$bundle_scripts/unwinder.sh" "$bundle_scripts/tools.sh")
readonly library=$folder/libgcc_s.so.1
readonly names=(Backtrace DeleteException FindEnclosingFunction ForcedUnwind GetCFA GetDataRelBase GetGR GetIP GetIPInfo
  GetLanguageSpecificData GetRegionStart GetTextRelBase RaiseException Resume Resume_or_Rethrow SetGR SetIP)

lock unwinder
if [[ ! -f $library ]]; then
  mkdir -p "$folder"
  printf 'void _Unwind_%s(void) {}\n' "${names[@]}" >"$folder/names.c"
  # The versions that libgcc gave them.
  cat >"$folder/versions.map" <<'MAP'
GCC_3.0 { global: _Unwind_*; local: *; };
GCC_3.3 { global: _Unwind_Backtrace; _Unwind_FindEnclosingFunction; _Unwind_GetCFA; _Unwind_Resume_or_Rethrow; } GCC_3.0;
GCC_4.2.0 { global: _Unwind_GetIPInfo; } GCC_3.3;
MAP
  logged unwinder "$("$bundle_scripts/tools.sh")/spdl-cc" -shared -fPIC -O2 -nostdlib -Wl,-soname,libgcc_s.so.1 \
    -Wl,--version-script="$folder/versions.map" -o "$library.new" "$folder/names.c"
  mv "$library.new" "$library"
fi
printf '%s\n' "$library"
