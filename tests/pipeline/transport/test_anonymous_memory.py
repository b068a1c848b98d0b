"""Test that the shared memory has a length that nobody changes, and does not come from /dev/shm."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from spdl.pipeline._transport.anonymous_memory import AnonymousMemory

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


def test_a_peer_can_neither_cut_it_off_nor_change_the_rules() -> None:
    fcntl = pytest.importorskip("fcntl")
    memory = AnonymousMemory(1 << 20)
    memory.back(0, 1 << 20)
    view = memoryview(memory.map())
    view[-1] = 7
    for size in (0, 4096, 1 << 21):
        with pytest.raises(PermissionError):
            os.ftruncate(memory.fd, size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(memory.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    assert view[-1] == 7
    view.release()
    memory.close()


def test_a_lack_of_memory_raises() -> None:
    memory = AnonymousMemory(1 << 46)
    with pytest.raises(OSError, match="no 70,368,744,177,664 bytes of memory left"):
        memory.back(0, 1 << 46)
    assert not os.fstat(memory.fd).st_blocks
    memory.close()


def test_what_is_given_up_is_gone() -> None:
    memory = AnonymousMemory(1 << 24)
    memory.back(0, 1 << 24)
    assert os.fstat(memory.fd).st_blocks * 512 == 1 << 24
    memory.give_up(1 << 20, 1 << 24)
    assert os.fstat(memory.fd).st_blocks * 512 == 1 << 20
    memory.close()


def test_what_is_not_mapped_can_be_used_as_well() -> None:
    memory = AnonymousMemory(1 << 24, 1 << 20)
    assert len(memory.map()) == 1 << 20
    memory.back(1 << 20, 1 << 24)
    content = bytes(range(256)) * 1000
    for begin in (1 << 20, (1 << 21) + 64):
        memory.write(begin, content)
    other = memory.copy()
    for begin in (1 << 20, (1 << 21) + 64):
        assert other.read(begin, len(content)) == content
    memory.give_up(1 << 22, 1 << 24)
    assert os.fstat(memory.fd).st_blocks * 512 == (1 << 22) - (1 << 20)
    memory.give_up(1 << 20, 1 << 22)
    assert not os.fstat(memory.fd).st_blocks
    other.close()
    memory.close()


def test_a_tiny_dev_shm() -> None:
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
