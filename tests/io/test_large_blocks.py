"""The memory of batches: freed memory is used again, whichever thread made it and whichever drops it."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import io, os, queue, threading
    import numpy as np
    from PIL import Image
    from spdl.io import load_image_batch, to_numpy

    file = io.BytesIO()
    Image.new("RGB", (16, 16), (1, 2, 3)).save(file, "JPEG")
    image = file.getvalue()
    made = queue.Queue(3)

    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def make():
        for number in range(60):
            # Several sizes, so that a block kept for the next array does not always fit.
            side = (1200, 1300, 1400)[number % 3]
            made.put(load_image_batch([image], width=side, height=side, mode="stretch"))

    before = resident()
    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    peak = 0
    for _ in range(4 * 60):
        pixels = to_numpy(made.get())
        assert (pixels == pixels[0, 0, 0]).all()
        del pixels
        peak = max(peak, resident())
    for thread in threads:
        thread.join()
    print((peak - before) // 2**20)
"""


def _run(program: str) -> int:
    """Return the number that a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=55, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_batches_do_not_pile_up() -> None:
    # Alive at once: 3 in the queue, 4 in the making, 1 read, up to 6 MiB each; 4 kept; the rest is numpy's comparison.
    assert _run(PROGRAM) < 120


# Each mapping of new memory would cost at least two page faults, of huge pages, and most often hundreds.
REUSE = """
    import random, resource
    from spdl.io import load_image_batch

    image, held, choose = b"P6 2 2 255 " + bytes(12), [], random.Random(0).randrange
    for number in range(3000):
        if number == 100:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        if len(held) == 3 or (held and choose(2)):
            del held[choose(len(held))]
        else:
            held.append(load_image_batch([image], width=900, height=800, mode="stretch"))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts Linux's page faults")
def test_memory_that_was_dropped_is_used_again() -> None:
    assert _run(REUSE) < 100
