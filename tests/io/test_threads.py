"""Many threads at once, which do not get in each other's way."""

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from spdl.io import (
    ImageFrames,
    ImagePackets,
    convert_frames,
    decode_packets,
    demux_image,
    load_image_batch,
    to_numpy,
)
from tests.io.images import encode, make_image, make_jpeg, write_jpegs


def test_eight_threads_agree(tmp_path: Path) -> None:
    # Hammers the per-thread scratch: sizes, formats and failures alternate in every thread.
    paths = write_jpegs(tmp_path, 6, 150, 100)
    inputs = [*paths, make_jpeg(40, 90), encode(make_image(70, 50), "PNG"), b"broken", make_jpeg()[:300]]

    def load(shift: int) -> object:
        rotated = inputs[shift:] + inputs[:shift]
        batches = [load_image_batch(rotated, width=size, height=size, strict=False) for size in (20, 50, 20)]
        return [to_numpy(batch).sum() for batch in batches]

    expected = load(0)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(load, [i % len(inputs) for i in range(64)])) == [expected] * 64


def test_packets_taken_by_many_threads_go_to_one(tmp_path: Path) -> None:
    path = write_jpegs(tmp_path, 1)[0]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            packets = demux_image(path)
            barrier = threading.Barrier(8)

            def decode() -> bool:
                barrier.wait()  # noqa: B023 - all have run before the next round.
                try:
                    convert_frames(decode_packets(packets))  # noqa: B023
                except TypeError:
                    return False
                return True

            assert sorted(pool.map(lambda _: decode(), range(8))) == [False] * 7 + [True]


def test_python_runs_while_a_batch_is_decoded(tmp_path: Path) -> None:
    inputs = write_jpegs(tmp_path, 4, 800, 600) * 40

    def load() -> None:
        started.append(time.perf_counter())
        load_image_batch(inputs, width=64, height=64)
        ended.append(time.perf_counter())

    # A call that held the GIL would stop the clock for as long as it did, in every try; a busy machine does not.
    shares = []
    for _ in range(10):
        started: list[float] = []
        ended: list[float] = []
        ticks: list[float] = []
        thread = threading.Thread(target=load)
        thread.start()
        while not ended:
            ticks.append(time.perf_counter())
            time.sleep(0.001)
        thread.join()
        call = [*started, *(tick for tick in ticks if started[0] < tick < ended[0]), *ended]
        shares.append(max(after - before for before, after in pairwise(call)) / (ended[0] - started[0]))
        if shares[-1] < 0.2:
            break
    assert shares[-1] < 0.2, shares


def frames_of_100_megabytes() -> ImageFrames:
    return decode_packets(demux_image(encode(Image.new("RGB", (6000, 6000)), "JPEG")))


def packets_of_100_megabytes() -> ImagePackets:
    return demux_image(encode(Image.new("RGB", (6000, 6000)), "BMP"))


@pytest.mark.parametrize("make", [frames_of_100_megabytes, packets_of_100_megabytes])
def test_python_runs_while_an_image_is_freed(make: Callable[[], object]) -> None:
    # No thread is made to hand over the GIL: the other one runs only where this one lets go of it.
    interval = sys.getswitchinterval()
    let_go = False
    for _ in range(20):
        images = [make() for _ in range(2)]
        ran = threading.Event()
        gate = threading.Lock()
        gate.acquire()

        def pass_gate() -> None:
            gate.acquire()  # noqa: B023 - the thread ends with its round.
            ran.set()  # noqa: B023

        thread = threading.Thread(target=pass_gate)
        thread.start()
        time.sleep(0.02)  # Until it waits.
        sys.setswitchinterval(1000)
        try:
            gate.release()
            images.clear()
            let_go = ran.is_set()
        finally:
            sys.setswitchinterval(interval)
            thread.join()
        if let_go:
            break
    assert let_go


def test_a_fork_can_decode(tmp_path: Path) -> None:
    paths = write_jpegs(tmp_path, 2)
    program = textwrap.dedent(f"""
        import os
        import spdl.io
        expected = spdl.io.to_numpy(spdl.io.load_image_batch({paths!r}, width=20, height=20)).sum()
        child = os.fork()
        if child == 0:
            same = spdl.io.to_numpy(spdl.io.load_image_batch({paths!r}, width=20, height=20)).sum() == expected
            os._exit(0 if same else 1)
        print(os.waitpid(child, 0)[1])
    """)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("0\n", "")


def test_results_do_not_depend_on_what_a_thread_did_before() -> None:
    # Tables and buffers are kept from image to image; none may show through.
    data = make_jpeg(211, 97)
    alone = to_numpy(load_image_batch([data], width=60, height=60))
    for other in (make_jpeg(500, 375), make_jpeg(3, 3), encode(make_image(400, 10), "PNG")):
        for interpolation in ("nearest", "lanczos", "bilinear", "area", "bicubic"):
            load_image_batch([other], width=60, height=60, interpolation=interpolation)
        np.testing.assert_array_equal(to_numpy(load_image_batch([data], width=60, height=60)), alone)
