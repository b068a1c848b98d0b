"""BMP: every header, depth and order of bits, run lengths, and what is wrong with damaged ones."""

import io
import struct

import numpy as np
import pytest
from PIL import Image
from tests.io.image.mutated_files import open_with_ours, open_with_pillow
from tests.io.image_files import run_length_bmp
from tests.io.images import decode_with_pillow, encode, make_image
from tests.io.pairs import pairs

from spdl.io import load_image, to_numpy

IMAGE = make_image(61, 43)
SIZE = (13, 5)


def bmp(
    bits: int,
    *,
    header: int = 40,
    compression: int = 0,
    masks: tuple[int, ...] = (),
    colors: bytes = b"",
    count: int = 0,
    pixels: bytes | None = None,
    offset: int | None = None,
    size: tuple[int, int] = SIZE,
) -> bytes:
    """Make a BMP of random pixels, with a header of so many bytes; the count of colours may be left out."""
    width, height = size
    row = (width * bits + 31) // 32 * 4
    if pixels is None:
        pixels = np.random.default_rng(bits).bytes(row * abs(height))
    fields = struct.pack(f"<{len(masks)}I", *masks)
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, *size, 1, bits, compression, 0, 0, 0, count, 0) + fields
        info = info.ljust(header, b"\0")
    start = 14 + len(info) + len(colors)
    head = struct.pack("<IHHI", start + len(pixels), 0, 0, start if offset is None else offset)
    return b"BM" + head + info + colors + pixels


def assert_pillows(data: bytes) -> None:
    with Image.open(io.BytesIO(data)) as image:
        alpha = image.mode == "RGBA"
        expected = np.asarray(image.convert("RGBA"))
    np.testing.assert_array_equal(to_numpy(load_image(data)), expected[..., :3])
    stored = to_numpy(load_image(data, filter_desc=None))
    if alpha:
        np.testing.assert_array_equal(stored, expected)
    else:
        np.testing.assert_array_equal(np.broadcast_to(stored, (*expected.shape[:2], 3)), expected[..., :3])


HEADERS = [12, 40, 52, 56, 64, 108, 124]


def colors_of(header: int, count: int, *, gray: bool = False) -> bytes:
    rng = np.random.default_rng(count)
    levels = np.repeat(np.arange(count) * (255 if count == 2 else 1), 3).reshape(-1, 3)
    colors = levels.astype(np.uint8) if gray else rng.integers(0, 256, (count, 3), np.uint8)
    return b"".join(color.tobytes() + (b"" if header == 12 else b"\0") for color in colors)


@pytest.mark.parametrize(("header", "bits"), pairs(HEADERS, [1, 4, 8, 16, 24, 32]))
def test_every_header_and_depth(header: int, bits: int) -> None:
    colors = colors_of(header, 1 << bits) if bits <= 8 else b""
    for height in (SIZE[1],) if header == 12 else (SIZE[1], -SIZE[1]):
        assert_pillows(bmp(bits, header=header, colors=colors, size=(SIZE[0], height)))


@pytest.mark.parametrize("header", HEADERS)
def test_gray_is_stored_as_gray(header: int) -> None:
    for bits in (1, 8):
        data = bmp(bits, header=header, colors=colors_of(header, 1 << bits, gray=True))
        assert_pillows(data)
        assert to_numpy(load_image(data, filter_desc=None)).shape == (*SIZE[::-1], 1)


def test_gray_levels_of_4_bits_are_what_their_colours_say() -> None:
    # Pillow takes each byte for a pixel, or refuses them.
    rows = np.random.default_rng(0).integers(0, 256, (5, 8), np.uint8)
    data = bmp(4, colors=colors_of(40, 16, gray=True), pixels=rows[::-1].tobytes())
    levels = np.stack([rows >> 4, rows & 15], -1).reshape(5, 16)[:, :13]
    np.testing.assert_array_equal(to_numpy(load_image(data, filter_desc=None))[..., 0], levels)


@pytest.mark.parametrize("bits", [1, 4, 8])
@pytest.mark.parametrize("gray", [False, True])
def test_pixels_without_a_colour(bits: int, gray: bool) -> None:  # noqa: FBT001
    for count in (1, 3, 7):
        if count < 1 << bits and (bits == 8 or not gray):
            assert_pillows(
                bmp(bits, colors=colors_of(40, count, gray=gray), count=count)
                if count > 2 or bits == 1
                else bmp(bits, colors=colors_of(40, count), count=count)
            )


@pytest.mark.parametrize("offset", [0, 54])
def test_where_pixels_begin_that_the_header_does_not_say(offset: int) -> None:
    for bits in (1, 4, 8, 24):
        assert_pillows(bmp(bits, colors=colors_of(40, 1 << bits) if bits <= 8 else b"", offset=offset))


RED, GREEN, BLUE = 0xFF0000, 0xFF00, 0xFF
TOP = 0xFF000000


@pytest.mark.parametrize(
    ("bits", "masks"),
    [
        (16, (0xF800, 0x7E0, 0x1F)),
        (16, (0x7C00, 0x3E0, 0x1F)),
        (24, (RED, GREEN, BLUE)),
        (32, (RED, GREEN, BLUE)),
        (32, (TOP, RED, GREEN)),
        (32, (TOP, GREEN, BLUE)),
        (32, (TOP, RED, GREEN, BLUE)),
        (32, (BLUE, GREEN, RED, TOP)),
        (32, (RED, GREEN, BLUE, TOP)),
        (32, (TOP, GREEN, BLUE, RED)),
        (32, (0, 0, 0, 0)),
    ],
)
def test_every_order_of_bits(bits: int, masks: tuple[int, ...]) -> None:
    for header in (40, 52, 56, 108, 124) if len(masks) == 3 else (56, 108, 124):
        assert_pillows(bmp(bits, header=header, compression=3, masks=masks))


def test_an_order_of_whole_bytes_that_pillow_does_not_know() -> None:
    rgba = to_numpy(load_image(bmp(32, header=56, compression=3, masks=(BLUE, GREEN, RED, TOP))))
    rgbx = to_numpy(load_image(bmp(32, header=56, compression=3, masks=(BLUE, GREEN, RED, 0))))
    np.testing.assert_array_equal(rgbx, rgba)


@pytest.mark.parametrize(
    ("bits", "masks"),
    [
        (16, (0x7C00, 0x3E0, 0xF)),
        (16, (0xF00, 0xF0, 0xF)),
        (24, (BLUE, GREEN, RED)),
        (32, (0x3FF00000, 0xFFC00, 0x3FF)),
        (32, (RED, RED, BLUE)),
        (32, (RED, GREEN, 0)),
        (8, (RED, GREEN, BLUE)),
    ],
)
def test_another_order_of_bits_is_an_error(bits: int, masks: tuple[int, ...]) -> None:
    data = bmp(bits, compression=3, masks=masks, colors=colors_of(40, 256) if bits == 8 else b"")
    assert open_with_pillow(data) is None
    reason = f"cannot decode the BMP: its {bits} bits of a pixel are given to the colours in a way that is not read"
    with pytest.raises(RuntimeError, match=reason):
        load_image(data)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("size", [(61, 43), (60, 3), (20, 20)])
def test_a_bmp_of_run_lengths(bits: int, size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 4, size[::-1])
    for end in (b"\0\1", b"\0\0\0\1", b""):
        assert_pillows(run_length_bmp(pixels, bits, end))


RUNS = run_length_bmp(np.zeros((3, 40), int))
START = int.from_bytes(RUNS[10:14], "little")
ROWS = RUNS[:START]


@pytest.mark.parametrize(
    "runs",
    [
        b"\x28\1\0\2\0\1\x28\2",  # A row is skipped.
        b"\x28\1\0\0\x20\2\0\2\x08\0\x28\3",  # A part of one is.
        b"\x28\1\0\2\5\1\x23\3",
        b"\x29\1\x28\2\0\0\x28\3\0\0\x28\4",  # Runs that are too long,
        b"\x28\1\0\0\x20\2\x20\3\0\0\x28\4",
        b"\0\x29" + bytes(range(41)) + b"\0\x27\1\0\0\x28\2",  # and pixels that go on in the next row.
        b"\5\1\0\0\0\0\x28\2\0\0\x28\3",  # An end of a row more.
        b"\x28\1\0\0\x28\2\0\0\0\x28" + bytes(40),
    ],
)
@pytest.mark.parametrize("top_down", [False, True])
def test_run_lengths_that_do_not_make_up_their_rows_are_read_as_in_pillow(runs: bytes, top_down: bool) -> None:  # noqa: FBT001
    head = ROWS[:22] + struct.pack("<i", -3) + ROWS[26:] if top_down else ROWS
    assert_pillows(head + runs)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (ROWS + b"\x28\1\0\0\x28\2\0\0", "the data is truncated: its run lengths end early"),
        (ROWS + b"\x28\1\0\0\x28\2\0\0\x27\3\0\1", "its run lengths end before its last row does"),
        (ROWS + b"\x28\1\0\0\0\x28" + bytes(39), "the data is truncated: its run lengths end early"),
        (ROWS + b"\x28\1\0\0\0\0\x28\1\0\1", "its run lengths end before its last row does"),
        (RUNS[:10] + struct.pack("<I", START + 1) + RUNS[14:], "its run lengths begin at an odd byte"),
        (RUNS[:46] + struct.pack("<I", 257) + RUNS[50:], "it is said to have 257 colours"),
        (bmp(24, compression=1), "run lengths of pixels of 24 bits are not read"),
        (
            bmp(1, header=64, compression=3, colors=bytes(8)),
            "its pixels are compressed as Huffman codes, which is not read in a BMP",
        ),
        (bmp(24, header=64, compression=4), "its pixels are compressed as run lengths of 24 bits, which"),
        (bmp(24, compression=4), "its pixels are compressed as a JPEG, which is not read in a BMP"),
        (bmp(24, compression=5), "its pixels are compressed as a PNG, which is not read in a BMP"),
        (bmp(24, compression=11), "its pixels are compressed in a way, 11, that is not read"),
        (bmp(2, colors=bytes(16)), "its pixels are said to have 2 bits"),
        (bmp(24, size=(0, 5)), "its size is said to be 0x5"),
        (bmp(24)[:14] + struct.pack("<I", 41) + bmp(24)[18:], "its header is said to have 41 bytes, as none that is"),
        (bmp(24)[:50], "the data is truncated: its 50 bytes end before its header does"),
        (bmp(24)[:-2], "the data is truncated: its [0-9]+ bytes end before its picture does"),
        (bmp(24, size=(9000, 9000), pixels=b""), "the data is truncated: its 54 bytes end before its picture"),
    ],
)
def test_a_damaged_bmp_says_what_is_wrong(data: bytes, reason: str) -> None:
    with pytest.raises(RuntimeError, match=f"cannot decode the BMP: {reason}"):
        load_image(data)


def test_the_last_row_need_not_be_padded() -> None:
    data = bmp(24)
    np.testing.assert_array_equal(open_with_ours(data[:-1]), np.asarray(decode_with_pillow(data)))


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA"])
def test_a_bmp_of_pillows(mode: str) -> None:
    assert_pillows(encode(IMAGE.convert(mode), "BMP"))
