"""Test that the shared memory does not come from /dev/shm, of which containers have little."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

# Run in a namespace whose /dev/shm has 1 MB.
PROGRAM = textwrap.dedent("""
    import os
    import numpy as np
    from spdl.pipeline import SharedMemorySegmentPool, iterate_in_subprocess

    class Arrays:
        def __call__(self): return self
        def __iter__(self): return (np.full(8 << 20, i, np.uint8) for i in range(6))

    status = os.statvfs("/dev/shm")
    assert status.f_blocks * status.f_frsize == 1 << 20
    for arena in (None, SharedMemorySegmentPool(8 << 20, 4)):
        items = iterate_in_subprocess(Arrays(), mp_context="fork", arena=arena)
        for number, array in enumerate(items):
            assert (array == number).all()
        items.close()
    print("done")
""")


def test_iterate_needs_no_dev_shm() -> None:
    inner = f'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec {sys.executable} -c "$PROGRAM"'
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", inner]
    try:
        probe = subprocess.run(
            [*command[:-1], "mount -t tmpfs -o size=1m tmpfs /dev/shm"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if probe.returncode:
        pytest.skip(f"this system lets nobody mount a file system of its own: {probe.stderr.strip()}")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PROGRAM": PROGRAM})
    assert done.stdout == "done\n", done.stderr
