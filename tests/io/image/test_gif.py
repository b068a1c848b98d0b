"""GIF: where the first picture lies on the screen, and pictures whose codes are damaged or end early."""

import io
import resource
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image
from tests.io.image.test_formats import assert_pillows, load
from tests.io.images import encode, make_image
from tests.io.pairs import pairs

from spdl.io import load_image

COLORS = bytes(np.random.default_rng(0).integers(0, 256, 3 * 16, np.uint8))


def codes(indices: Sequence[int], bits: int = 4) -> bytes:
    """Write each index as a code of its own, in parts; a clear code before each keeps the codes short."""
    numbers = [code for index in indices for code in (1 << bits, index)] + [(1 << bits) + 1]
    content = "".join(format(number, f"0{bits + 1}b")[::-1] for number in numbers)
    data = bytes(int(content[at : at + 8][::-1], 2) for at in range(0, len(content), 8))
    parts = [data[at : at + 255] for at in range(0, len(data), 255)]
    return bytes([bits]) + b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


def gif(
    screen: tuple[int, int],
    box: tuple[int, int, int, int],
    *,
    background: int = 0,
    shared: bytes = COLORS,
    own: bytes = b"",
    transparent: int | None = None,
    interlaced: bool = False,
    data: bytes | None = None,
) -> bytes:
    """Make a GIF of one picture, box (left, top, width, height), on a screen."""

    def flags(colors: bytes) -> int:
        return 0x80 | (len(colors) // 3).bit_length() - 2 if colors else 0

    file = b"GIF89a" + struct.pack("<HHBBB", *screen, flags(shared), background, 0) + shared
    if transparent is not None:
        file += b"\x21\xf9\x04" + bytes([1, 0, 0, transparent]) + b"\0"
    file += b"," + struct.pack("<HHHHB", *box, flags(own) | (0x40 if interlaced else 0)) + own
    count = box[2] * box[3]
    return file + (codes([index % 13 + 2 for index in range(count)]) if data is None else data) + b";"


def assert_pillows_alpha(data: bytes) -> None:
    """Compare what is stored, and RGBA, with Pillow's."""
    with Image.open(io.BytesIO(data)) as file:
        expected = np.asarray(file.convert("RGBA"))
    np.testing.assert_array_equal(load(data, filter_desc="format=pix_fmts=rgba"), expected)
    stored = load(data, filter_desc=None)
    np.testing.assert_array_equal(stored if stored.shape[2] == 4 else stored[..., [0, 0, 0, 1]], expected)


@pytest.mark.parametrize(
    ("box", "background", "own", "interlaced"),
    pairs(
        [(0, 0, 9, 7), (2, 1, 4, 3), (7, 5, 2, 2), (8, 6, 4, 5), (20, 20, 1, 3)],
        [0, 1, 5, 200],
        [b"", COLORS[::-1], COLORS[:24]],
        [False, True],
    ),
)
def test_a_picture_of_another_size_than_its_screen(
    *, box: tuple[int, int, int, int], interlaced: bool, background: int, own: bytes
) -> None:
    assert_pillows(gif((9, 7), box, background=background, own=own, interlaced=interlaced))


@pytest.mark.parametrize("transparent", [0, 1, 4, 200])
@pytest.mark.parametrize("shared", [COLORS, b""])
def test_a_transparent_colour_is_that_of_the_screen_beside_the_picture(transparent: int, shared: bytes) -> None:
    data = gif((9, 7), (2, 1, 4, 3), background=3, shared=shared, transparent=transparent)
    assert_pillows(data)
    assert_pillows_alpha(data)


def test_the_first_part_of_a_control_block_counts_and_the_last_control_block() -> None:
    data = gif((9, 7), (2, 1, 4, 3), transparent=4)
    control = data.index(b"!\xf9")
    for blocks in (
        b"!\xf9\x04\1\0\0\3\0",
        b"!\xf9\x05\1\0\0\3\0\x04\1\0\0\5\0",
        b"!\xf9\x04\1\0\0\3\0!\xf9\x04\0\0\0\5\0",
        b"!\xfe\x05hello\5world\0!\xfe\0!\xff\x0bNETSCAPE2.0\3\1\0\0\0!\xf9\x04\1\0\0\3\0",
    ):
        changed = data[:control] + blocks + data[control + 8 :]
        assert_pillows(changed)
        assert_pillows_alpha(changed)


def test_a_gif_without_colours_is_gray() -> None:
    data = gif((9, 7), (2, 1, 4, 3), shared=b"")
    assert_pillows(data)
    assert load(data, filter_desc=None).shape == (7, 9, 1)


def test_gray_colours_of_a_picture_hide_the_shared_ones() -> None:
    # Pillow takes those of the file, against the specification.
    grays = bytes(level for level in range(16) for _ in range(3))
    with_shared = gif((9, 7), (0, 0, 9, 7), own=grays)
    np.testing.assert_array_equal(load(with_shared), load(gif((9, 7), (0, 0, 9, 7), shared=grays)))


def test_indices_without_a_colour_are_black_or_gray() -> None:
    assert_pillows(gif((9, 7), (0, 0, 9, 7), shared=COLORS[:12]))
    assert_pillows(gif((9, 7), (0, 0, 9, 7), shared=bytes(level for level in range(8) for _ in range(3))))


def test_stray_bytes_between_the_blocks_are_skipped() -> None:
    data = gif((9, 7), (0, 0, 9, 7))
    picture = data.index(b",", 13 + len(COLORS))
    assert_pillows(data[:picture] + b"\0\0" + data[picture:])


BROKEN: dict[str, tuple[bytes, str]] = {
    "too few codes": (codes([2] * 62), "its codes stand for 62 of its 63 pixels"),
    "no codes": (b"\4\0", "its codes stand for 0 of its 63 pixels"),
    "a code that means nothing": (b"\4\x08" + b"\x10\xff" * 4 + b"\0", "the codes of its pixels are damaged"),
    "codes of 0 bits": (b"\0\1\0\0", "its codes are said to be of 0 bits"),
    "codes of 12 bits": (b"\x0c\1\0\0", "its codes are said to be of 12 bits"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_gif_that_is_not_all_there_is_an_error(kind: str) -> None:
    content, reason = BROKEN[kind]
    data = gif((9, 7), (0, 0, 9, 7), data=content)
    with pytest.raises(RuntimeError, match=f"cannot decode the GIF: {reason}"):
        load_image(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (gif((9, 7), (0, 0, 9, 0)), "its picture is said to have 9x0 pixels"),
        (b"GIF89a\1\0\1\0\0\0\0!\xf9\0,", "an extension in front of its picture ends early"),
        (b"GIF89a\1\0\1\0\0\0\0!\xf9\4\1", "the data is truncated: its 17 bytes end before its picture begins"),
        (b"GIF89a\1\0\1\0\0\0\0;", "there is no picture in it"),
    ],
)
def test_a_gif_without_a_picture_is_an_error(data: bytes, reason: str) -> None:
    with pytest.raises(RuntimeError, match=f"cannot decode the GIF: {reason}"):
        load_image(data)


def test_the_codes_of_a_full_table_are_pillows() -> None:
    # More codes than the table takes, so that it is full and cleared.
    noise = np.random.default_rng(0).integers(0, 256, (300, 401), np.uint8)
    for image in (Image.fromarray(noise), Image.new("P", (1500, 1000)), make_image(301, 200).quantize(256)):
        assert_pillows(encode(image, "GIF"))


def lzw(indices: Sequence[int], bits: int, *, clears: bool) -> bytes:
    """Write codes of strings, also ones of the string that they end; a full table stays unless it is cleared."""
    clear = 1 << bits
    codes: dict[tuple[int, ...], int] = {(index,): index for index in range(clear)}
    content = ""
    width, known = bits + 1, clear + 2  # How many codes the reader of the next one knows.
    current: tuple[int, ...] = ()

    def write(code: int) -> None:
        nonlocal content
        content += format(code, f"0{width}b")[::-1]

    write(clear)
    first = True
    for index in [*indices, -1]:
        if (*current, index) in codes:
            current = (*current, index)
            continue
        write(codes[current])
        known = min(known + (not first), 4096)
        first = False
        width = min(max(width, known.bit_length()), 12)
        if clears and known == 4096:
            write(clear)
            codes, width, known, first = {(value,): value for value in range(clear)}, bits + 1, clear + 2, True
        elif len(codes) < 4096 - 2:
            codes[*current, index] = len(codes) + 2
        current = (index,)
    write(clear + 1)
    data = bytes(int(content[at : at + 8][::-1], 2) for at in range(0, len(content), 8))
    parts = [data[at : at + 200] for at in range(0, len(data), 200)]
    return bytes([bits]) + b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


@pytest.mark.parametrize("clears", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8, 9, 11])
def test_codes_of_every_size(bits: int, clears: bool) -> None:  # noqa: FBT001
    rng = np.random.default_rng(bits)
    runs = [int(index) for index in rng.integers(0, 1 << bits, 900) for _ in range(int(rng.integers(1, 9)))]
    noise = rng.integers(0, 1 << bits, 99 * 120 - len(runs)).tolist()
    for interlaced in (False, True):
        data = gif((99, 120), (0, 0, 99, 120), interlaced=interlaced, data=lzw(runs + noise, bits, clears=clears))
        assert_pillows(data)


def test_a_small_gif_that_claims_many_pixels_costs_no_memory() -> None:
    data = gif((17000, 9000), (0, 0, 17000, 9000), data=codes([2] * 1000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RuntimeError, match="bytes cannot hold its 153000000 pixels"):
        load_image(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
