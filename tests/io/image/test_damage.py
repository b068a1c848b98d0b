"""Untrusted bytes: the result is always an array or a clear Python error.

These are the tests to run with the native part built under a sanitizer.
"""

import gc
import random
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io.images import decode_with_pillow, encode, make_image, make_jpeg

from spdl.io import decode_packets, demux_image, load_image, load_image_batch, to_numpy

SAMPLES = {
    "baseline": make_jpeg(),
    "progressive": make_jpeg(progressive=True),
    "restarts": make_jpeg(restart_marker_blocks=2),
    "gray": encode(make_image(123, 77).convert("L"), "JPEG"),
    "cmyk": encode(make_image(123, 77).convert("CMYK"), "JPEG"),
    "png": encode(make_image(50, 40), "PNG"),
    "gif": encode(make_image(50, 40).quantize(32), "GIF"),
    "bmp": encode(make_image(50, 40), "BMP"),
    "tiff": encode(make_image(50, 40), "TIFF", compression="tiff_lzw"),
    "webp": encode(make_image(50, 40), "WEBP"),
}


def attempt(data: bytes) -> None:
    """Run every path; each may refuse the data in its own words, but nothing else may happen."""
    batch = None
    try:
        batch = load_image_batch([data], width=31, height=17, strict=False)
    except RuntimeError as error:
        assert str(error)  # noqa: PT017 - either outcome is right.
    if batch is not None:
        assert batch.shape == (1, 17, 31, 3)
        assert to_numpy(batch).sum() >= 0
    try:
        keywords: dict[str, Any] = {"mode": "crop", "flip": True, "exact": False, "on_error": "partial"}
        # The regions that are skipped lie on all sides.
        batch = load_image_batch([data], width=9, height=7, crop=[(21, 19, 45, 37)], dtype="float32", **keywords)
        assert np.isfinite(to_numpy(batch)).all()
    except RuntimeError as error:
        assert str(error)  # noqa: PT017
    try:
        frames = decode_packets(demux_image(data), filter_desc=None)
        assert frames.width > 0
    except RuntimeError as error:
        assert str(error)  # noqa: PT017


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_prefix_is_handled(sample: str) -> None:
    data = SAMPLES[sample]
    for size in [*range(0, min(len(data), 700), 3), *range(700, len(data), 97)]:
        attempt(data[:size])


@pytest.mark.parametrize("sample", ["baseline", "progressive", "restarts", "gray"])
def test_a_truncated_jpeg_is_an_error_as_in_pillow(sample: str) -> None:
    data = SAMPLES[sample]
    for size in [*range(2, 700, 29), *range(700, len(data) - 1, 211), len(data) - 2, len(data) - 1]:
        with pytest.raises((OSError, SyntaxError)):
            decode_with_pillow(data[:size])
        with pytest.raises(RuntimeError, match="truncated" if size > 2 else "."):
            load_image(data[:size])


@pytest.mark.parametrize("sample", ["png", "gif", "bmp", "tiff", "webp"])
def test_a_truncated_picture_is_an_error_or_all_there(sample: str) -> None:
    data = SAMPLES[sample]
    whole = to_numpy(load_image(data))
    refused = 0
    for size in [*range(len(data) // 4, len(data), 37), len(data) - 2, len(data) - 1]:
        try:
            found = to_numpy(load_image(data[:size]))
        except RuntimeError:
            refused += 1
        else:
            assert np.array_equal(found, whole), f"{size} of {len(data)} bytes"
    assert refused > 10


@pytest.mark.parametrize("sample", SAMPLES)
def test_flipped_bits_are_handled(sample: str) -> None:
    rng = random.Random(sample)  # noqa: S311 - damage, not cryptography.
    for _ in range(120):
        data = bytearray(SAMPLES[sample])
        for _ in range(rng.choice((1, 3, 20))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        attempt(bytes(data))


@pytest.mark.parametrize("sample", ["baseline", "restarts"])
def test_a_damaged_scan_gives_what_pillow_gives(sample: str) -> None:
    rng = random.Random(sample)  # noqa: S311 - damage, not cryptography.
    original = SAMPLES[sample]
    scan = original.index(b"\xff\xda") + 14
    compared = 0
    for _ in range(60):
        data = bytearray(original)
        data[rng.randrange(scan, len(data) - 2)] ^= 1 << rng.randrange(8)
        try:
            expected = np.asarray(decode_with_pillow(bytes(data)))
        except OSError:
            continue
        np.testing.assert_array_equal(to_numpy(load_image(bytes(data))), expected)
        compared += 1
    assert compared > 30


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(sorted(SAMPLES)), st.binary(min_size=1, max_size=64), st.integers(0, 2**31))
def test_spliced_bytes_are_handled(sample: str, piece: bytes, at: int) -> None:
    data = SAMPLES[sample]
    cut = at % len(data)
    attempt(data[:cut] + piece + data[cut:])
    attempt(data[:cut] + piece + data[cut + len(piece) :])


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=300))
def test_random_bytes_are_handled(data: bytes) -> None:
    attempt(data)
    attempt(b"\xff\xd8\xff" + data)


def test_too_little_memory_is_a_memory_error(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(make_jpeg(200, 100))
    program = textwrap.dedent(f"""
        import resource
        import spdl.io
        spdl.io.load_image({str(path)!r})
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        try:
            spdl.io.load_image_batch([{str(path)!r}] * 300, width=2000, height=2000)
        except MemoryError as error:
            print(error)
    """)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.stderr == ""
    assert "load fewer or smaller images" in result.stdout


def test_a_jpeg_of_endless_scans_is_refused() -> None:
    data = SAMPLES["progressive"]
    first = data.index(b"\xff\xda")
    second = data.index(b"\xff\xda", first + 2)
    scans = data[first:second]
    # Tables may stand between scans; only the scan itself is repeated.
    scan = scans[: scans.index(b"\xff\xc4")] if b"\xff\xc4" in scans else scans
    with pytest.raises(RuntimeError, match="more than 500 scans"):
        load_image(data[:first] + scan * 2000 + data[first:])


def test_memory_does_not_grow_with_repetition(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(make_jpeg(300, 200))
    inputs = [path, make_jpeg(300, 200)[:-2000], encode(make_image(300, 200), "PNG"), b"nothing", "missing.jpg"]
    process = psutil.Process()

    def work() -> None:
        for _ in range(40):
            load_image_batch(inputs, width=64, height=64, strict=False)
            decode_packets(demux_image(path).clone())
            load_image(inputs[2], filter_desc="hflip,format=pix_fmts=rgb24")

    work()
    work()
    before = process.memory_info().rss
    for _ in range(5):
        work()
    # 200 rounds of 5 images of 180 kB each: a leak of one image per round would be 36 MB.
    assert process.memory_info().rss - before < 15e6


FAILING: dict[str, Any] = {
    "a header alone": SAMPLES["baseline"][:200],
    "truncated": SAMPLES["progressive"][:-100],
    "no size": SAMPLES["baseline"][:163] + bytes(4) + SAMPLES["baseline"][167:],
    "no image": b"nothing",
    "nothing": b"",
    "missing": "missing.jpg",
    "a folder": "/",
    "png": SAMPLES["png"][:-300],
    "gif": SAMPLES["gif"][:200],
    "tiff": SAMPLES["tiff"][:500],
    "webp": SAMPLES["webp"][:300],
    "bmp": SAMPLES["bmp"][:60],
}


def test_thousands_of_failing_calls_leave_nothing_behind() -> None:
    process = psutil.Process()

    def work() -> None:
        for data in FAILING.values():
            with pytest.raises(RuntimeError):
                load_image_batch([data, data], width=16, height=16, strict=False)
            with pytest.raises(RuntimeError):
                load_image(data)
            with pytest.raises(RuntimeError):
                load_image(data, filter_desc="hflip,format=pix_fmts=rgb24")

    def resident() -> int:
        for _ in range(60):
            work()
        gc.collect()
        return int(process.memory_info().rss)

    resident()
    before, descriptors = resident(), process.num_fds()
    # 60 rounds are 2160 calls, each of which would leave some kB.
    assert resident() - before < 3e6
    assert process.num_fds() == descriptors
