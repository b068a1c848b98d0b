"""GIF: where the first picture lies on the screen, and pictures whose codes are damaged or end early."""

import io
import resource
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image
from tests.io.image.test_formats import assert_pillows, load
from tests.io.image_files import AnyArray
from tests.io.images import decode_with_pillow, encode, make_image
from tests.io.pairs import pairs

from spdl.io import demux_config, load_image

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


def seen(data: bytes) -> AnyArray:
    """Return which pixels are not transparent, according to Pillow."""
    with Image.open(io.BytesIO(data)) as file:
        mask: AnyArray = np.asarray(file.convert("RGBA"))[..., 3] > 0
    return mask


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


@pytest.mark.parametrize("transparent", [0, 1, 4])
def test_the_screen_beside_a_picture_with_transparent_pixels_is_transparent(transparent: int) -> None:
    data = gif((9, 7), (2, 1, 4, 3), background=3, transparent=transparent)
    mask, pixels = seen(data), load(data)
    assert 0 < mask.sum() <= 12
    np.testing.assert_array_equal(pixels[mask], np.asarray(decode_with_pillow(data))[mask])
    assert (pixels[~mask] == 255).all()


def test_a_gif_without_colours_is_gray() -> None:
    assert_pillows(gif((9, 7), (2, 1, 4, 3), shared=b""))


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
    # FFmpeg fills up the rest.
    content, reason = BROKEN[kind]
    data = gif((9, 7), (0, 0, 9, 7), data=content)
    for config in (None, demux_config(format="gif")):
        with pytest.raises(RuntimeError, match=f"cannot decode the image as gif: {reason}"):
            load_image(data, demux_config=config)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (gif((9, 7), (0, 0, 9, 0)), "its picture is said to have 9x0 pixels"),
        (gif((9, 7), (65535, 0, 1, 1)), "its picture ends 65536 pixels to the right of its screen's corner"),
        (b"GIF89a\1\0\1\0\0\0\0;", "there is no picture in it"),
    ],
)
def test_a_gif_without_a_picture_is_an_error(data: bytes, reason: str) -> None:
    with pytest.raises(RuntimeError, match=f"cannot decode the image as gif: {reason}"):
        load_image(data)


def test_the_codes_of_pillows_and_ffmpegs_tables_are_ours() -> None:
    # More codes than the table takes, so that it is full and cleared.
    noise = np.random.default_rng(0).integers(0, 256, (300, 401), np.uint8)
    for image in (Image.fromarray(noise), Image.new("P", (3000, 2000)), make_image(301, 200).quantize(256)):
        assert_pillows(encode(image, "GIF"))


def test_a_small_gif_that_claims_many_pixels_costs_no_memory() -> None:
    data = gif((17000, 9000), (0, 0, 17000, 9000), data=codes([2] * 1000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RuntimeError, match="its codes stand for 1000 of its 153000000 pixels"):
        load_image(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
