#!/usr/bin/env bash
# Prints the interpreters that releases are made for and that this machine has, "3.12 /path/to/python" a line each. They are
# looked for in $PYTHONS (paths, separated by blanks), on PATH and under pyenv; 3.13t is built from source.
# Usage: scripts/bundle/pythons.sh [VERSION...]   (by default 3.11 3.12 3.13 3.13t)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

[[ $# -gt 0 ]] || set -- 3.11 3.12 3.13 3.13t

# Prints "3.13t /its/own/path"; nothing where it does not run, has no headers or cannot make environments.
identify() {
  "$1" -c 'import ensurepip, os, sys, sysconfig as s, venv
if os.path.exists(os.path.join(s.get_path("include"), "Python.h")):
    kind = "t" if s.get_config_var("Py_GIL_DISABLED") else ""
    print("%d.%d%s" % (*sys.version_info[:2], kind), sys.executable)' 2>/dev/null || true
}

# find_python VERSION: its line, or nothing.
find_python() {
  local given=() candidate line
  read -r -a given <<<"${PYTHONS:-}"
  for candidate in "${given[@]}" "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python3; do
    line=$(identify "$candidate")
    if [[ ${line%% *} == "$1" ]]; then
      printf '%s\n' "$line"
      return
    fi
  done
  if [[ $1 == 3.13t ]]; then
    identify "$("$bundle_scripts/python_313t.sh")"
  fi
}

for wanted in "$@"; do
  line=$(find_python "$wanted")
  if [[ -n $line ]]; then
    printf '%s\n' "$line"
  else
    say "there is no Python $wanted here: looked in \$PYTHONS, on PATH and under pyenv"
  fi
done
