"""The decoders of a JPEG's Huffman codes: libjpeg's, and our own in builds that have it.

Our own has to be told from libjpeg's by its speed alone: the same pixels, and for damaged files the same picture or the
same error. SPDL_MUTATIONS says how many damaged files are compared (run this with the native part built under a
sanitizer).
"""

import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.io.headers import scan_start
from tests.io.images import Array, decode_with_pillow, encode, make_image, make_jpeg
from tests.io.inside import entropy_decoders, knows_entropy_decoder, last_entropy_decoder, using_entropy_decoder

from spdl.io import load_image, load_image_batch, to_numpy

MUTATIONS = int(os.environ.get("SPDL_MUTATIONS", "1500"))

needs_own = pytest.mark.skipif("own" not in entropy_decoders(), reason="this build has no entropy decoder of its own")


@pytest.fixture(params=entropy_decoders())
def decoder(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test once with each decoder of this build."""
    name: str = request.param
    with using_entropy_decoder(name):
        yield name


def make_noise(width: int, height: int, seed: int) -> Image.Image:
    """Every kind of coefficient, and the longest codes."""
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8))


@settings(deadline=None, max_examples=150)
@given(
    size=st.tuples(st.integers(1, 130), st.integers(1, 130)),
    seed=st.integers(0, 3),
    noise=st.booleans(),
    mode=st.sampled_from(["RGB", "L", "CMYK"]),
    quality=st.integers(1, 100),
    subsampling=st.sampled_from(["4:4:4", "4:2:2", "4:2:0", "4:1:1"]),
    optimize=st.booleans(),
)
def test_pixels_are_pillows(
    *, size: tuple[int, int], seed: int, noise: bool, mode: str, quality: int, subsampling: str, optimize: bool
) -> None:
    image = (make_noise if noise else make_image)(*size, seed).convert(mode)
    data = encode(image, quality=quality, subsampling=subsampling, optimize=optimize)
    np.testing.assert_array_equal(to_numpy(load_image(data)), np.asarray(decode_with_pillow(data)))


def test_a_scan_of_any_length_is_read(decoder: str) -> None:
    # The longest is read in many pieces. Noise has an 0xff, which is stored with a zero behind it, everywhere.
    for width in (200, 211, 223, 640):
        data = encode(make_noise(width, 330, width), quality=100, subsampling="4:4:4")
        np.testing.assert_array_equal(to_numpy(load_image(data)), np.asarray(decode_with_pillow(data)))
        assert last_entropy_decoder() == decoder


def test_tables_are_told_apart(decoder: str) -> None:
    # Optimised tables are each image's own: more of them than a thread keeps, in turns.
    inputs = [make_jpeg(48, 40, seed=seed, quality=quality, optimize=True) for seed in range(4) for quality in (30, 90)]
    expected = np.stack([np.asarray(decode_with_pillow(content)) for content in inputs])
    order = random.Random(1).choices(range(len(inputs)), k=100)  # noqa: S311
    batch = load_image_batch([inputs[i] for i in order], width=None, height=None)
    np.testing.assert_array_equal(to_numpy(batch), expected[order])
    assert last_entropy_decoder() == decoder


def test_threads_do_not_share_what_they_decode_with(decoder: str) -> None:
    inputs = [make_jpeg(90, 60, seed=seed, quality=20 + 9 * seed, optimize=bool(seed % 2)) for seed in range(8)]
    expected = [np.asarray(decode_with_pillow(content)) for content in inputs]

    def load(i: int) -> bool:
        image = to_numpy(load_image(inputs[i % 8]))
        return last_entropy_decoder() == decoder and np.array_equal(image, expected[i % 8])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(load, range(800)))


def test_an_unknown_decoder_is_refused() -> None:
    assert not knows_entropy_decoder("theirs")
    assert entropy_decoders()[-1] == "libjpeg"


@needs_own
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (make_jpeg(), "own"),
        (make_jpeg(optimize=True), "own"),
        (make_jpeg() + b"what follows the image", "own"),
        (encode(make_image(50, 40).convert("L")), "own"),
        (encode(make_image(50, 40).convert("CMYK")), "own"),
        (make_jpeg(progressive=True), "libjpeg"),
        (make_jpeg(restart_marker_blocks=2), "libjpeg"),
        (make_jpeg(restart_marker_rows=1), "libjpeg"),
    ],
)
def test_what_it_was_not_made_for_is_left_to_libjpeg(data: bytes, expected: str) -> None:
    load_image(data)
    assert last_entropy_decoder() == expected


Outcome = tuple[str, Array] | tuple[str, str]

# Options other than loading whole pictures: with these, rows are skipped and columns left out, blocks are decoded at a
# fraction of their size, and the missing part of a truncated file is filled up.
REQUESTS: tuple[dict[str, Any], ...] = (
    {"width": None, "height": None},
    {"width": None, "height": None, "crop": [(9, 7, 31, 29)]},
    {"width": 5, "height": 4, "mode": "stretch", "crop": [(3, 11, 36, 30)], "flip": True},
    {"width": 9, "height": 8, "mode": "crop", "exact": False},
    {"width": 4, "height": 3, "mode": "stretch", "exact": False, "crop": [(1, 2, 40, 33)]},
    {"width": None, "height": None, "on_error": "partial"},
    {"width": 20, "height": 20, "on_error": "partial", "crop": [(8, 16, 40, 33)]},
    {"width": 6, "height": 5, "on_error": "partial", "exact": False, "pix_fmt": "gray"},
)


def load_one(data: bytes, request: dict[str, Any] | None) -> Array:
    array: Array = to_numpy(load_image(data) if request is None else load_image_batch([data], **request))
    return array


def outcome(data: bytes, decoder: str, request: dict[str, Any] | None = None) -> Outcome:
    """The result of loading the data: pixels, or the error's message."""
    with using_entropy_decoder(decoder):
        try:
            return "image", load_one(data, request)
        except RuntimeError as error:
            return "error", str(error)


def assert_same_outcome(data: bytes, request: dict[str, Any] | None = None) -> str:
    """Return which decoder ours left the image to."""
    expected = outcome(data, "libjpeg", request)
    actual = outcome(data, "own", request)
    used = last_entropy_decoder()
    assert actual[0] == expected[0]
    np.testing.assert_array_equal(actual[1], expected[1])
    return used


# Ways of damaging a JPEG, each a trap for a decoder that does without some of libjpeg's care. `scan` is where the
# entropy-coded data start and `at` a place in them.


def flip_bits(data: bytearray, scan: int, at: int, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 3, 30))):
        data[rng.randrange(scan, len(data))] ^= 1 << rng.randrange(8)


def overwrite(data: bytearray, scan: int, at: int, rng: random.Random) -> None:
    size = rng.randrange(1, 200)
    data[at : at + size] = rng.randbytes(size)


def insert_ones(data: bytearray, scan: int, at: int, rng: random.Random) -> None:
    """Put in what is never a code."""
    data[at:at] = b"\xff\x00" * rng.randrange(1, 40)


def insert_markers(data: bytearray, scan: int, at: int, rng: random.Random) -> None:
    data[at:at] = b"\xff" * rng.randrange(1, 6) + rng.choice((b"\0", b"\xd9", b"\xd0", b"\xd7", b"\x01", b""))


def remove(data: bytearray, scan: int, at: int, rng: random.Random) -> None:
    del data[at : at + rng.randrange(1, 300)]


def repeat(data: bytearray, scan: int, at: int, rng: random.Random) -> None:
    data[at:at] = data[at : at + rng.randrange(1, 300)]


def end_early(data: bytearray, scan: int, at: int, rng: random.Random) -> None:
    endings = (b"", b"\xff", b"\xff\xd9", b"\xff\xff\xd9", b"\xff\xd3", b"\xff\x00", b"\0\xff\xd9")
    data[at:] = rng.choice(endings)


def end_a_little_early(data: bytearray, scan: int, at: int, rng: random.Random) -> None:
    del data[-rng.randrange(1, 12) :]
    data += rng.choice((b"", b"\xff\xd9", b"\xff", b"\xff\xff"))


def change_huffman_tables(data: bytearray, scan: int, at: int, rng: random.Random) -> None:
    data[rng.randrange(data.index(b"\xff\xc4") + 4, scan)] = rng.randrange(256)


def change_headers(data: bytearray, scan: int, at: int, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 3))):
        data[rng.randrange(2, scan)] = rng.randrange(256)


DAMAGES = (
    flip_bits,
    overwrite,
    insert_ones,
    insert_markers,
    remove,
    repeat,
    end_early,
    end_a_little_early,
    change_huffman_tables,
    change_headers,
)


def damage(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    scan = scan_start(data)
    rng.choice(DAMAGES)(changed, scan, rng.randrange(scan, len(data)), rng)
    return bytes(changed)


ORIGINALS = (
    make_jpeg(70, 50, quality=94),
    make_jpeg(61, 47, quality=30, subsampling="4:4:4", optimize=True),
    make_jpeg(40, 90, quality=75, subsampling="4:2:2"),
    encode(make_image(52, 52).convert("L"), quality=90),
    encode(make_image(40, 33).convert("CMYK"), quality=90),
    encode(make_noise(80, 80, 1), quality=100, subsampling="4:1:1"),
    encode(make_noise(180, 170, 2), quality=97),
    make_jpeg(66, 50, restart_marker_blocks=3),
)


@needs_own
def test_damaged_files_come_out_as_from_libjpeg() -> None:
    rng = random.Random(7)  # noqa: S311 - damage, not cryptography.
    used = {"own": 0, "libjpeg": 0}
    for _ in range(MUTATIONS):
        used[assert_same_outcome(damage(rng.choice(ORIGINALS), rng))] += 1
    # Where there is no marker behind the data, or a restart interval, and for what is no JPEG any more.
    assert used["own"] > MUTATIONS / 3
    assert used["libjpeg"] > MUTATIONS / 20


@needs_own
@pytest.mark.parametrize("request_index", range(len(REQUESTS)))
def test_damaged_files_come_out_as_from_libjpeg_whatever_is_asked_for(request_index: int) -> None:
    request = REQUESTS[request_index]
    rng = random.Random(request_index)  # noqa: S311
    used = {"own": 0, "libjpeg": 0}
    for _ in range(MUTATIONS // 5):
        used[assert_same_outcome(damage(rng.choice(ORIGINALS), rng), request)] += 1
    assert used["own"] > MUTATIONS / 5 / 3


@needs_own
@pytest.mark.parametrize("request_index", range(len(REQUESTS)))
def test_files_that_end_anywhere_come_out_as_from_libjpeg(request_index: int) -> None:
    # libjpeg decodes as much as there is of a scan that no marker ends; our decoder leaves such scans to it.
    request = REQUESTS[request_index]
    for data in (make_jpeg(44, 36, quality=90), make_jpeg(44, 36, quality=60, subsampling="4:4:4")):
        for end in range(scan_start(data), len(data), 37):
            for ending in (b"", b"\xff\xd9"):
                assert_same_outcome(data[:end] + ending, request)


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "4:1:1"])
def test_what_is_cut_out_is_a_part_of_pillows_picture(decoder: str, subsampling: str) -> None:
    data = make_jpeg(157, 119, quality=93, subsampling=subsampling)
    whole = decode_with_pillow(data)
    rng = random.Random(3)  # noqa: S311
    for _ in range(60):
        left, top = rng.randrange(157), rng.randrange(119)
        box = (left, top, rng.randrange(left, 157) + 1, rng.randrange(top, 119) + 1)
        cut = to_numpy(load_image_batch([data], width=None, height=None, crop=[box]))[0]
        np.testing.assert_array_equal(cut, np.asarray(whole.crop(box)))
        assert last_entropy_decoder() == decoder


@pytest.mark.parametrize("divisor", [2, 4, 8])
@pytest.mark.parametrize("pix_fmt", ["rgb24", "gray"])
def test_a_picture_at_a_fraction_of_its_size_is_that_of_libjpeg(decoder: str, divisor: int, pix_fmt: Any) -> None:
    for width, height in ((160, 128), (64, 200), (24, 56)):
        data = make_jpeg(width, height, quality=93)
        # What remains for the filter is less than another half.
        keywords: dict[str, Any] = {"width": width * 5 // 8 // divisor, "height": height * 5 // 8 // divisor}
        keywords |= {"mode": "stretch", "interpolation": "bilinear", "exact": False, "pix_fmt": pix_fmt}
        ours = to_numpy(load_image_batch([data], **keywords))
        assert last_entropy_decoder() == decoder
        with using_entropy_decoder("libjpeg"):
            theirs = to_numpy(load_image_batch([data], **keywords))
        assert knows_entropy_decoder(decoder)
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("rows", [1, 20, 60, 100])
def test_what_is_there_of_a_truncated_picture_is_that_of_the_whole(decoder: str, rows: int) -> None:
    data = make_jpeg(96, 119, quality=93, subsampling="4:4:4")
    whole = np.asarray(decode_with_pillow(data))
    cut = data[: scan_start(data) + (len(data) - scan_start(data)) * rows // 119]
    batch = load_image_batch([cut], width=None, height=None, on_error="partial")
    partial = to_numpy(batch)[0]
    assert [failure.index for failure in batch.failures] == [0]
    assert "truncated" in batch.failures[0].reason
    same = (partial == whole).all(axis=(1, 2))
    complete = int(np.argmin(same)) if not same.all() else len(same)
    assert complete % 8 == 0
    assert complete >= max(rows // 2 // 8 * 8, 0)
    ended = cut + b"\xff\xd9"
    np.testing.assert_array_equal(to_numpy(load_image(ended)), partial)


@needs_own
@pytest.mark.parametrize("ending", [b"", b"\xff", b"\xff\xd9", b"\xff\xff\xd9", b"\xff\xd0", b"\xff\x00\xff\xd9"])
def test_every_end_of_a_scan_comes_out_as_from_libjpeg(ending: bytes) -> None:
    data = make_jpeg(24, 24, quality=80)
    for end in range(scan_start(data), len(data) - 1):
        assert_same_outcome(data[:end] + ending)
