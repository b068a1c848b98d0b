"""Processes that end while their daemon threads are in native code: they end quietly and at once.

`SPDL_EXITS` says how often each program is run; the default is short.
"""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.io.images import make_jpeg, write_jpegs
from tests.io.tars import make_tar

EXITS = int(os.environ.get("SPDL_EXITS", "2"))

# The calls that a thread repeats. Long calls spend their time without the interpreter, short ones attached to it,
# where an interpreter without the GIL makes them wait for each other, and ends threads that wait.
WORKS = {
    "long calls": """
        spdl.io.load_image_batch(PATHS * 2, width=64, height=64)
        spdl.io.convert_frames(spdl.io.decode_packets(spdl.io.demux_image(PATHS[0])))
    """,
    "short calls": """
        PACKETS.clone().codec.name
        spdl.io.load_image(TINY).shape
        spdl.io.to_numpy(BUFFER)
        spdl.io.load_npy(NPY)
        SHARED["a"]
        [bytes(content) for name, content in spdl.io.iter_tarfile(TAR)]
    """,
    "errors": """
        for wrong in b"no image", PATHS[0] + ".missing", TINY[:40]:
            try:
                spdl.io.load_image(wrong)
            except (RuntimeError, OSError):
                pass
    """,
    "shared memory": """
        spdl.io.load_image_batch([TINY] * 3, width=8, height=8, storage=STORAGE, num_threads=2)
        held[turn % 4] = spdl.io.load_image(TINY)
        held[(turn + 1) % 4] = None
    """,
}

PROGRAM = """
import io, threading, time
import numpy as np
import spdl.io

def saved(save, value):
    file = io.BytesIO()
    save(file, value)
    return file.getvalue()

PATHS, TINY = {paths!r}, {tiny!r}
NPY, TAR = saved(spdl.io.save_npy, np.arange(9)), {tar!r}
PACKETS, BUFFER = spdl.io.demux_image(TINY), spdl.io.load_image(TINY)
SHARED = spdl.io.load_npz(saved(spdl.io.save_npz, {{"a": np.arange(9)}}))
STORAGE = spdl.io.cpu_storage(3 * 8 * 8 * 3, pin_memory=False)
held = [None] * 4
turns = [0] * 6

def work(mine):
    while True:
        turn = turns[mine]
{work}
        turns[mine] += 1

for mine in range(len(turns)):
    threading.Thread(target=work, args=(mine,), daemon=True).start()
# Not while they import: CPython 3.13 without the GIL may then hang, whatever is imported.
while min(turns) < 3:
    time.sleep(0.001)
{end}
"""


def compose(work: str, folder: Path, end: str = "") -> str:
    body = textwrap.indent(textwrap.dedent(work).strip("\n"), " " * 8)
    tar = make_tar([(str(number), b"x" * number) for number in range(9)])
    return PROGRAM.format(paths=write_jpegs(folder, 2, 300, 200), tiny=make_jpeg(8, 8), tar=tar, work=body, end=end)


def run(program: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    return done.returncode, done.stdout, done.stderr


def check(program: str, expected: tuple[int, str, str]) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, [program] * EXITS)) == [expected] * EXITS


@pytest.mark.timeout(max(60, 20 * EXITS))
@pytest.mark.parametrize("work", WORKS)
def test_a_process_whose_threads_are_busy_ends(work: str, tmp_path: Path) -> None:
    program = compose(WORKS[work], tmp_path)
    check(program, (0, "", ""))


@pytest.mark.timeout(max(60, 20 * EXITS))
def test_its_exit_status_and_output_are_kept(tmp_path: Path) -> None:
    end = "print('last words', end=''); raise SystemExit(7)"
    program = compose(WORKS["short calls"], tmp_path, end)
    check(program, (7, "last words", ""))


# As CPython before 3.14 does to threads that come back to it while it shuts down, on purpose and at a chosen place.
ENDED = """
import ctypes, os, threading, time
import spdl.io

def threads():
    return len(os.listdir("/proc/self/task"))

archive, blocks, reached = {tar!r}, [], threading.Event()

class Stream:
    def read(self, size):
        blocks.append(archive[512 * len(blocks) :][:size])
        if len(blocks) > 1:
            reached.set()
            ctypes.CDLL(None).pthread_exit(None)
        return blocks[-1]

before = threads()
threading.Thread(target=lambda: list(spdl.io.iter_tarfile(Stream())), daemon=True).start()
reached.wait()
for _ in range(20):
    time.sleep(0.01)
    spdl.io.load_image({tiny!r})
print(threads() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="pthread_exit unwinds the stack with glibc alone")
def test_a_thread_that_is_ended_in_native_code_sleeps_there() -> None:
    program = ENDED.format(tar=make_tar([("a", b"")]), tiny=make_jpeg(8, 8))
    assert run(program) == (0, "1\n", "")
