#!/usr/bin/env bash
# Runs the thread tests under ThreadSanitizer, with a free-threaded CPython and our extension, both built for it, on the
# system's FFmpeg. Fails if a data race is found. The first run builds that CPython, which takes some minutes.
# Usage: scripts/thread_sanitizer.sh [PYTEST_ARGUMENT...]   (default: the modules about threads)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# ThreadSanitizer ends a process that was forked from one with threads and starts threads itself. So of the transport, the
# tests are left out whose forked workers do that: one of the channel, and all of the storage.
[[ $# -gt 0 ]] || set -- tests/{io,pipeline,source}/test_shared_objects.py tests/io/array/test_shared_archives.py \
  tests/io/test_threads.py tests/pipeline/transport/test_{channel,hammer}.py \
  --deselect tests/pipeline/transport/test_channel.py::test_closing_wakes_a_sender_of_the_worker

python=$(scripts/bundle/python_313t.sh --thread-sanitizer)
tools=$(scripts/bundle/tools.sh)
readonly environment=$PWD/build/thread-sanitizer build=$PWD/build/thread-sanitizer-native
readonly site=$environment/lib/python3.13t/site-packages reports=$PWD/build/thread-sanitizer-reports

# Under ThreadSanitizer, pip and the build's own Python code would take minutes, so another Python runs them.
platforms=()
for glibc in 5 12 17 24 27 28; do
  platforms+=(--platform "manylinux_2_${glibc}_$(uname -m)")
done
# The interpreter and numpy are not under test, so nothing is reported about them during the setup.
export TSAN_OPTIONS=report_bugs=0
if [[ ! -f $environment/complete ]]; then
  rm -rf "$environment"
  "$python" -m venv --without-pip "$environment"
  "$tools/python" -m pip install --quiet --target "$site" --only-binary :all: --python-version 3.13 --abi cp313t \
    --abi abi3 --abi none "${platforms[@]}" --group test-free-threaded numpy nanobind
  touch "$environment/complete"
fi
# Include nanobind, as its atomics would otherwise go unseen, and the names that reports show.
PATH=$tools:$PATH CC=gcc CXX=g++ "$tools/cmake" -S . -B "$build" -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_MAKE_PROGRAM="$tools/ninja" -DPython_EXECUTABLE="$environment/bin/python" \
  -Dnanobind_DIR="$site/nanobind/cmake" -DCMAKE_CXX_FLAGS=-fsanitize=thread
"$tools/cmake" --build "$build" -- --quiet
rm -rf "$site/spdl"
cp -r src/spdl "$site/"
cp "$build"/native/_native.*.so "$site/spdl/io/"

# Reports go into files, including those of the tests' subprocesses, as pytest would keep most of them to itself.
rm -rf "$reports"
mkdir -p "$reports"
export TSAN_OPTIONS="exitcode=66 history_size=4 log_path=$reports/report suppressions=$PWD/scripts/thread_sanitizer.supp"
# ThreadSanitizer has a thread of its own, which makes Python warn at each fork.
export PYTHONWARNINGS="ignore:This process:DeprecationWarning"
status=0
# A plugin leaves a thread behind that waits, which CPython 3.13 races with when it ends.
"$environment/bin/python" -m pytest -p no:rerunfailures --timeout 900 "$@" || status=$?
if compgen -G "$reports/*" >/dev/null; then
  cat "$reports"/*
  exit 66
fi
exit $status
