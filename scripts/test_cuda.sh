#!/usr/bin/env bash
# Runs the tests that need an NVIDIA GPU. Without a GPU, each says so and is skipped.
# Usage: [WHEEL=dist/NAME.whl] [PYTHON=python3] [SPDL_TEST_CLIPS=FOLDER] scripts/test_cuda.sh [PYTEST_ARGUMENT...]
#
# With WHEEL, nothing is compiled or downloaded, since a machine with a GPU often can do neither. The wheel is unpacked
# into build/test-cuda, and the tests run on it with the packages that PYTHON has. Its FFmpeg encodes few formats, so
# bring clips of the others: `python -m tests.io.av.carried_clips FOLDER` makes them where there is an ffmpeg command.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Only the modules with such tests, so that the imports of other tests are not needed.
readonly tests=(tests/io/device/test_built_with.py tests/io/device/test_gpu.py tests/io/device/test_gpu_decoding.py
  tests/io/device/test_transfer_tensor.py tests/seeds)

if [[ -z ${WHEEL:-} ]]; then
  scripts/setup.sh test
  exec .venv/bin/python -m pytest -m cuda "${tests[@]}" "$@"
fi

readonly python=${PYTHON:-python3} folder=build/test-cuda
find_missing='
import importlib.util, sys
print(*[name for name in sys.argv[1:] if importlib.util.find_spec(name) is None])
'
missing=$("$python" -c "$find_missing" pytest pytest_timeout hypothesis psutil PIL numpy torch)
if [[ -n $missing ]]; then
  printf 'spdl test-cuda: %s cannot import %s: install that, or name another interpreter with PYTHON=\n' \
    "$python" "$missing" >&2
  exit 1
fi
rm -rf "$folder"
"$python" -m pip install --quiet --no-index --no-deps --target "$folder" "$WHEEL"
PYTHONPATH=$folder${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m pytest -m cuda "${tests[@]}" "$@"
