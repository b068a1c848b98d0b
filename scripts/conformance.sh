#!/usr/bin/env bash
# Reads the files of other projects and compares each with an oracle; tests/conformance does it.
# Usage: [WHEEL=dist/NAME.whl] [PYTHON=python3] scripts/conformance.sh [ARGUMENT...]
#
# With WHEEL, that wheel is installed into an environment of its own, in build/conformance.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -z ${WHEEL:-} ]]; then
  scripts/setup.sh conformance
  exec .venv/bin/python -m tests.conformance --build system "$@"
fi

readonly environment=build/conformance
rm -rf "$environment"
"${PYTHON:-python3}" -m venv "$environment"
# --group came with pip 25.1.
"$environment/bin/python" -m pip install --quiet --quiet --upgrade 'pip>=25.1'
"$environment/bin/python" -m pip install --quiet --quiet --only-binary :all: --group conformance "$WHEEL"
exec "$environment/bin/python" -m tests.conformance --build wheel "$@"
