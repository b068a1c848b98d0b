"""TIFF files that are not read, and why: damage, claims, and pixels that have no 8-bit RGB."""

import lzma
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.io.image.test_formats import assert_pillows, load
from tests.io.image_files import tiff, tiff_file
from tests.io.images import decode_with_pillow, encode, make_image
from tests.io.tiff_files import LEVELS, PIXELS, RGB, SAMPLES, deflated, stored, sub_directory

from spdl.io import decode_config, load_image, load_image_batch

SHORT = zlib.compress(LEVELS.tobytes()[:-1])
LIE = b"\x78\x01\x01" + struct.pack("<HH", 6001, 6001 ^ 0xFFFF) + bytes(30)
JPEG = encode(make_image(161, 143), "TIFF", compression="jpeg")
HOLE = JPEG[: len(JPEG) // 2] + bytes(600) + JPEG[len(JPEG) // 2 + 600 :]

DAMAGED = {
    "short": (deflated([SHORT]), "strip 1 of 1 is damaged"),
    "empty": (deflated([zlib.compress(b"")]), "strip 1 of 1 is damaged"),
    "no strips": (deflated([b"", b""]), "its strips are missing, or end early: there are 0 bytes in the file for 6000"),
    "the second is short": (
        deflated([zlib.compress(LEVELS[:30].tobytes()), zlib.compress(bytes(2999))]),
        "strip 2 of 2 is damaged",
    ),
    "cut": (deflated([PIXELS[:-9]]), "strip 1 of 1 is damaged"),
    "a wrong checksum": (deflated([PIXELS[:-1] + b"x"]), "strip 1 of 1 is damaged"),
    "no head": (deflated([PIXELS[2:]]), "strip 1 of 1 is damaged"),
    "a stored block that goes beyond its end": (deflated([LIE]), "strip 1 of 1 is damaged"),
    "below a thumbnail": (sub_directory(PIXELS, 8, SHORT), "strip 1 of 1 is damaged"),
    "strips are missing": (deflated([PIXELS], {257: (4, [80]), 278: (4, [10])}), "strip 2 of 8 is damaged, or missing"),
    "beyond the file": (
        deflated([PIXELS], {273: (4, [9999])}),
        "its strips are missing, or end early: there are 0 bytes",
    ),
    "short, without compression": (stored(SAMPLES[..., 0].tobytes()[:-2000]), "its strips are missing, or end early"),
    "too few samples": (deflated([PIXELS], {262: (3, [2])}), "its pixels are 1 sample of 8 bits, fewer than their"),
    "fractions": (deflated([PIXELS], {258: (5, [8]), 270: (3, [8])}), "its first directory is damaged"),
    "a palette that is too short": (
        stored(SAMPLES[..., 0], {262: (3, [3]), 320: (3, [1] * 767)}),
        "its directory's entry 320 is damaged",
    ),
    "different bits": (
        stored(SAMPLES[..., :3], {**RGB, 258: (3, [8, 8, 4])}),
        "its first directory is damaged .*different values",
    ),
    "no bits": (stored(SAMPLES[..., :3], {**RGB, 258: None}), "it does not say how many bits its samples have"),
    "planes of no kind": (stored(SAMPLES[..., :3], {**RGB, 284: (3, [3])}), "its first directory is damaged"),
    "no LZW": (stored(b"\0\1" + bytes(6000), {259: (3, [5])}), "strip 1 of 1 is damaged"),
    "differences of 4 bits": (
        deflated([zlib.compress(bytes(3000))], {258: (3, [4]), 317: (3, [2])}),
        "strip 1 of 1 is damaged.*not supported with 4-bit",
    ),
    "a JPEG with a gap": (HOLE, "the data of a JPEG inside are damaged"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_is_an_error(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    data, message = DAMAGED[kind]
    with pytest.raises(RuntimeError, match=r"cannot decode the TIFF: " + message):
        load(data)
    assert capfd.readouterr() == ("", "")


UNREAD = {
    "Lab": (stored(SAMPLES[..., :3], {262: (3, [8])}), "in the colour space Lab, which is not converted"),
    "a raw photo": (stored(SAMPLES[..., 0], {50706: (1, [1, 4, 0, 0])}), "those of a raw photo"),
    "a mosaic": (stored(SAMPLES[..., 0], {262: (3, [32803])}), "those of a raw photo"),
    "a mask": (stored(SAMPLES[..., 0], {262: (3, [4])}), "a mask for another picture"),
    "LogLuv": (stored(SAMPLES[..., 0].tobytes(), {258: (3, [16]), 259: (3, [34676]), 262: (3, [32844])}), "logarithms"),
    "an unknown space": (stored(SAMPLES[..., 0], {262: (3, [77])}), r"in a colour space \(number 77\)"),
    "LZMA": (
        tiff(np.asarray(make_image(61, 43)), compression=34925, compress=lzma.compress),
        "compressed with LZMA: store it without compression, or with LZW, deflate, zstd or JPEG",
    ),
    "JPEG 2000": (stored(SAMPLES[..., 0], {259: (3, [34712])}), "compressed with JPEG 2000"),
    "an unknown compression": (stored(SAMPLES[..., 0], {259: (3, [999])}), r"compressed with a method \(number 999\)"),
    "colours of floats": (
        stored(SAMPLES[..., :3].astype(np.float32), {**RGB, 339: (3, [3] * 3)}),
        "3 floating-point samples of 32 bits, whose range is not known",
    ),
    "half floats": (stored(SAMPLES[..., :1].astype(np.float16), {339: (3, [3])}), "1 floating-point sample of 16 bits"),
    "wide samples": (stored(SAMPLES[..., :3].astype(np.uint32), RGB), "3 samples of 32 bits"),
    "complex numbers": (stored(SAMPLES[..., :1].astype(np.uint32), {339: (3, [5])}), "complex numbers"),
    "a palette without colours": (stored(SAMPLES[..., 0], {262: (3, [3])}), "indices of colours that it does not have"),
    "indices of 16 bits": (
        stored(SAMPLES[..., :1].astype(np.uint16), {262: (3, [3]), 320: (3, [1] * (3 << 16))}),
        "indices of 16 bits",
    ),
    "samples that are not described": (stored(SAMPLES[..., :2]), "2 samples of 8 bits, 1 of which are described"),
    "three kinds of one more": (stored(SAMPLES, {**RGB, 338: (3, [0, 0, 2])}), "4 samples of 8 bits, 6 of which"),
    "YCbCr of 16 bits": (stored(SAMPLES[..., :3].astype(np.uint16), {262: (3, [6])}), "3 samples of 16 bits of YCbCr"),
}


@pytest.mark.parametrize("kind", UNREAD)
def test_pixels_that_are_not_read_are_an_error(kind: str) -> None:
    data, reason = UNREAD[kind]
    with pytest.raises(RuntimeError, match=f"cannot decode the TIFF: its pixels are {reason}"):
        load(data)
    with pytest.raises(RuntimeError, match=reason):
        load_image_batch([data], width=8, height=8)


@pytest.mark.parametrize("cut", [1, 4])
def test_a_checksum_that_is_cut_off_does_not_matter(cut: int) -> None:
    np.testing.assert_array_equal(load(deflated([PIXELS[:-cut]]))[..., 0], LEVELS)


def test_strips_may_hold_more_than_their_rows() -> None:
    rows = {273: (4, [8] * 60), 278: (4, [1]), 279: (4, [len(PIXELS)] * 60)}
    data = deflated([PIXELS] * 2, rows)
    np.testing.assert_array_equal(load(data)[..., 0], np.broadcast_to(LEVELS[0], (60, 100)))


@pytest.mark.parametrize("big", [False, True])
def test_a_tiff_that_ends_early_is_an_error(big: bool) -> None:  # noqa: FBT001
    data = encode(make_image(61, 43), "TIFF", compression="tiff_lzw", big_tiff=big)
    for size in [8, 9, 14, 16, 17, 40, *range(60, len(data), 97), len(data) - 1]:
        with pytest.raises(RuntimeError, match=r"cannot decode the TIFF: "):
            load(data[:size])


def test_damaged_lzw_is_an_error() -> None:
    image = make_image(61, 43)
    data = encode(image, "TIFF", compression="tiff_lzw")
    refused = 0
    for at in range(9, 4000, 37):
        damaged = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        try:
            decode_with_pillow(damaged)
        except OSError:
            with pytest.raises(RuntimeError, match="cannot decode the TIFF"):
                load(damaged)
            refused += 1
        else:
            assert_pillows(damaged)
    assert refused > 20


def test_claims_cost_no_memory() -> None:
    def claim(changes: dict[int, list[int]]) -> bytes:
        entries = {256: [16], 257: [16], 258: [8] * 3, 259: [8], 262: [2], 277: [3], 278: [16], 273: [8], 279: [9]}
        return tiff_file(sorted((tag, 4, values) for tag, values in (entries | changes).items()), bytes(9))

    for huge in ({256: [60000], 257: [60000]}, {257: [2**32 - 1], 278: [1]}):
        with pytest.raises(RuntimeError, match=r"its first directory|its strips are missing"):
            load(claim(huge))
    tiles = {322: [65536], 323: [65536], 324: [8], 325: [9]}
    with pytest.raises(RuntimeError, match="its tiles are missing, or end early: there are 9 bytes in the file for"):
        load(claim(tiles))
    with pytest.raises(RuntimeError, match=r"its strips are missing|its pixels are 60000 samples"):
        load(claim({258: [8], 277: [60000], 257: [9000], 256: [9000], 338: [0] * 59997}))
    small = encode(make_image(61, 43), "TIFF")
    with pytest.raises(RuntimeError, match=r"its size of 61x43 .*at most 2000 pixels"):
        load(small, decode_config=decode_config(max_pixels=2000))


def test_threads_have_their_own_words() -> None:
    kinds = list(DAMAGED.values()) * 8

    def message(data: bytes) -> str:
        with pytest.raises(RuntimeError) as error:
            load_image(data)
        return str(error.value)

    alone = [message(data) for data, _ in kinds]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(message, [data for data, _ in kinds])) == alone


def test_tiles_that_share_their_data_are_counted() -> None:
    side, count = 40_000, 400
    # Each has 640,000 bytes, of which only the first row is shown.
    data = tiff_file(
        [
            *[(256, 4, [16 * count]), (257, 4, [1]), (258, 3, [8]), (259, 3, [8]), (262, 3, [1]), (277, 3, [1])],
            *[(322, 4, [16]), (323, 4, [side]), (324, 4, [8] * count), (325, 4, [700] * count)],
        ],
        zlib.compress(bytes(16 * side)),
    )
    with pytest.raises(RuntimeError, match=rf"its tiles \({count} of {16 * side} bytes\) are more than the"):
        load_image(data, decode_config=decode_config(max_pixels=10_000))
