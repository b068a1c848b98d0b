"""What cannot be started for want of descriptors leaves none behind, whichever of them is the one that is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.timeout(240)

# In a process of its own, whose limit can be lowered. Of multiprocessing's own pipes some stay open then, so these are
# not looked at.
PROGRAM = """
import gc
import operator
import os
import resource
import sys

from spdl.pipeline import PipelineBuilder, SharedMemoryRingBuffer, SharedMemorySegmentPool, iterate_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig


def numbers():
    return [1, 2, 3]


def iterate(arena=None):
    items = iterate_in_subprocess(numbers, arena=arena, mp_context="forkserver", timeout=60)
    try:
        return list(items)
    finally:
        items.close()


def ring():
    return iterate(SharedMemoryRingBuffer(1 << 20))


def segments():
    return iterate(SharedMemorySegmentPool(1 << 16, 4))


def region():
    pipeline = (
        PipelineBuilder()
        .add_source(numbers())
        .to(ProcessPoolExecutorConfig(2))
        .pipe(operator.pos)
        .to(MAIN_PROCESS)
        .add_sink()
        .build(num_threads=1)
    )
    with pipeline.auto_stop():
        return sorted(pipeline)


def opened():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass
    return found


def left_over(function):
    function()
    left = []
    for free in range(1, 100):
        gc.collect()
        before = opened()
        # So many of the numbers below the limit are free.
        limit = [number for number in range(1000) if number not in before][free - 1] + 1
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        done = True
        try:
            function()
        except Exception:  # Which one depends on what is missing, and to whom.
            done = False
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, hard))
        gc.collect()
        after = opened()
        left += [(free, what) for number, what in after.items() if number not in before and "pipe:" not in what]
        if done:
            return left
    raise AssertionError("it never worked")


if __name__ == "__main__":
    print(left_over(globals()[sys.argv[1]]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="lists the descriptors by /proc")
@pytest.mark.parametrize("what", ["iterate", "ring", "segments", "region"])
def test_nothing_is_left_of_what_could_not_be_started(what: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), what], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
