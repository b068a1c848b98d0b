"""How long the cores of a process were idle, as the system counts it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from spdl.observe._window.idle_cores import idle_seconds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_cores_are_idle_for_no_longer_than_time_passes() -> None:
    cores, began = len(os.sched_getaffinity(0)), time.monotonic()
    before = idle_seconds(os.getpid())
    time.sleep(0.2)
    after = idle_seconds(os.getpid())
    assert before is not None
    assert after is not None
    # The system counts in ticks, and a core is told of late.
    assert 0 <= after - before <= cores * (time.monotonic() - began + 0.1)


def test_only_the_cores_that_the_process_may_use_count() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) == 1:
        pytest.skip("this process may use one core")
    program = f"import os, sys; os.sched_setaffinity(0, [{allowed[0]}]); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        one, all_of_them = idle_seconds(process.pid), idle_seconds(os.getpid())
        process.communicate()
    assert one is not None
    assert all_of_them is not None
    assert 0 < one < all_of_them


def test_of_a_process_that_is_gone_nobody_says() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert idle_seconds(process.pid) is None
