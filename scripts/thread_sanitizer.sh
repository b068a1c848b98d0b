#!/usr/bin/env bash
# Runs the tests of threads under ThreadSanitizer: a free-threaded CPython and our extension, both built for it, on the
# system's libraries. Fails where a data race is found. The first run builds that CPython, which takes some minutes.
# Usage: scripts/thread_sanitizer.sh [PYTEST_ARGUMENT...]   (by default the modules about threads)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[[ $# -gt 0 ]] || set -- tests/{io,pipeline,source}/test_shared_objects.py tests/io/test_threads.py

python=$(scripts/bundle/python_313t.sh --thread-sanitizer)
readonly environment=build/thread-sanitizer
# Of the interpreter, numpy and pip, which are not under test, nothing is reported while things are set up.
export TSAN_OPTIONS=report_bugs=0
if [[ ! -f $environment/complete ]]; then
  rm -rf "$environment"
  "$python" -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --quiet --only-binary :all: 'pip>=25.1'
  "$environment/bin/python" -m pip install --quiet --quiet --only-binary :all: --group test-free-threaded \
    --group build numpy
  touch "$environment/complete"
fi
CC=gcc CXX=g++ "$environment/bin/python" -m pip install --quiet --quiet --no-deps --no-build-isolation \
  -C build-dir=build/thread-sanitizer-native -C cmake.define.SPDL_SANITIZE=thread .

# Every report ends the process with this status, the tests' own subprocesses included; what it is about is printed.
export TSAN_OPTIONS="exitcode=66 history_size=4 suppressions=$PWD/scripts/thread_sanitizer.supp"
"$environment/bin/python" -m pytest --timeout 900 "$@"
