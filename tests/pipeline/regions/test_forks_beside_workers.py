"""Children that an op forks while other threads receive: each ends, whatever these hold at that moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.timeout(240)

# Threads give memory back all the time. The locks that they hold then, a fork copies as they are.
PROGRAM = """
import os
import sys
import threading
import time

import numpy as np

from spdl.pipeline import PipelineBuilder, SharedMemorySegmentPool, iterate_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig


def make(number):
    return np.full(2000, number)


def arrays():
    return map(make, range(100_000))


def fork(number):
    child = os.fork()
    if child == 0:
        os._exit(0)
    deadline = time.monotonic() + 60
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.write(1, b"a child hangs")
            os._exit(1)
        time.sleep(0.001)
    return number


def dropping(items):
    for item in items:
        del item


if __name__ == "__main__":
    sys.setswitchinterval(1e-6)
    items = iterate_in_subprocess(arrays, arena=SharedMemorySegmentPool(1 << 15, 8), mp_context="forkserver")
    thread = threading.Thread(target=dropping, args=(items,), daemon=True)
    thread.start()
    pipeline = (
        PipelineBuilder()
        .add_source(range(int(sys.argv[1])))
        .to(ProcessPoolExecutorConfig(2))
        .pipe(make)
        .to(MAIN_PROCESS)
        .pipe(fork, concurrency=4)
        .add_sink()
        .build(num_threads=4)
    )
    with pipeline.auto_stop():
        print(len(list(pipeline)))
    sys.stdout.flush()
    os._exit(0)
"""


def test_children_end_that_are_forked_while_memory_is_given_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), "200"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        printed, _ = process.communicate(timeout=200)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, printed) == (0, "200\n")
