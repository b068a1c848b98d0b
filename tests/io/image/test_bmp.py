"""BMP: run lengths, 16 bits, and files that FFmpeg would show otherwise than Pillow."""

import struct

import numpy as np
import pytest
from tests.io.image.mutated_files import open_with_ours
from tests.io.image_files import run_length_bmp
from tests.io.images import decode_with_pillow, encode, make_image

from spdl.io import load_image

IMAGE = make_image(61, 43)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("size", [(61, 43), (60, 3), (20, 20)])
def test_a_bmp_of_run_length_bmp(bits: int, size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 4, size[::-1])
    for end in (b"\0\1", b"\0\0\0\1", b""):
        data = run_length_bmp(pixels, bits, end)
        np.testing.assert_array_equal(open_with_ours(data), np.asarray(decode_with_pillow(data)))


RUNS = run_length_bmp(np.zeros((3, 40), int))
START = int.from_bytes(RUNS[10:14], "little")
ROWS = RUNS[:START]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (ROWS + b"\x28\1\0\0\x28\2\0\0", "its run lengths end early"),
        (ROWS + b"\x28\1\0\0\x28\2\0\0\x27\3\0\1", "its run lengths end before its last row does"),
        (ROWS + b"\x29\1", "one of its run lengths does not fit into its row"),
        (ROWS + b"\x28\1\0\2\0\1", "its run lengths leave out the end of a row"),
        (ROWS + b"\x28\1\0\0\0\2\0\2", "one of its run lengths does not fit into its row"),
        (ROWS + b"\x28\1\0\0\0\0\x28\1\0\1", "one of its rows is left out"),
        (RUNS[:10] + struct.pack("<I", START + 1) + RUNS[14:], "its run lengths begin at an odd byte"),
        (RUNS[:10] + struct.pack("<I", 54) + RUNS[14:], "its pixels are said to begin at byte 54, before the end of"),
        (RUNS[:46] + struct.pack("<I", 257) + RUNS[50:], "it is said to have 257 colours, of which its 8 bits name"),
        (
            encode(IMAGE, "BMP")[:28] + struct.pack("<HI", 16, 3) + encode(IMAGE, "BMP")[34:],
            "its pixels of 16 bits have an order of bits that is not read",
        ),
    ],
)
def test_a_damaged_bmp_says_what_is_wrong(data: bytes, reason: str) -> None:
    with pytest.raises(RuntimeError, match=f"cannot decode the image as bmp: {reason}"):
        load_image(data)


@pytest.mark.parametrize("masks", [None, (0xF800, 0x7E0, 0x1F), (0x7C00, 0x3E0, 0x1F)])
def test_a_bmp_of_16_bits_is_a_level_from_pillows_at_most(masks: tuple[int, int, int] | None) -> None:
    pixels = np.random.default_rng(0).integers(0, 65536, (43, 62), np.uint16)
    extra = b"" if masks is None else struct.pack("<III", *masks)
    start = 54 + len(extra)
    info = struct.pack("<IiiHHIIiiII", 40, 62, 43, 1, 16, 0 if masks is None else 3, pixels.nbytes, 0, 0, 0, 0)
    data = b"BM" + struct.pack("<IHHI", start + pixels.nbytes, 0, 0, start) + info + extra + pixels.tobytes()
    picture = open_with_ours(data)
    assert picture is not None
    assert np.abs(picture.astype(int) - decode_with_pillow(data)).max() <= 1
