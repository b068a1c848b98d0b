#!/usr/bin/env bash
# Prints where the Python of a name or path lies. One that is on PATH may not run: pyenv puts all of its Pythons there, of
# which only those run that were chosen for a folder.
# Usage: scripts/bundle/python.sh PYTHON
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/places.sh"

readonly name=${1:?usage: scripts/bundle/python.sh PYTHON}
if "$name" -c "" 2>/dev/null; then
  command -v "$name"
  exit
fi
line=""
if [[ $name =~ ^python([0-9.]+t?)$ ]]; then
  line=$("$bundle_scripts/pythons.sh" "${BASH_REMATCH[1]}")
fi
[[ -n $line ]] || fail "$name does not run: install it, or give the path of a Python (PYTHON=/path/to/python3)"
printf '%s\n' "${line#* }"
