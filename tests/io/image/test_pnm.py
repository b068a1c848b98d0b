"""PBM, PGM and PPM: every number of levels, in text and in binary, and what is wrong with damaged ones."""

import io

import numpy as np
import pytest
from PIL import Image
from tests.io.image.mutated_files import open_with_ours, open_with_pillow
from tests.io.image_files import pnm
from tests.io.images import Array
from tests.io.pairs import pairs

from spdl.io import load_image, to_numpy


def open_pnm(data: bytes) -> Array | None:
    """Open it with Pillow. It shows gray of more than 8 bits with all of them, of which the upper half is kept here."""
    picture = open_with_pillow(data)
    if picture is not None and data[:2] in (b"P2", b"P5"):
        with Image.open(io.BytesIO(data)) as image:
            if image.mode == "I":
                return np.repeat((np.asarray(image) >> 8).astype(np.uint8)[..., np.newaxis], 3, axis=2)
    return picture


LEVELS = [1, 2, 3, 7, 15, 100, 127, 254, 255, 256, 1000, 4095, 65534, 65535]


@pytest.mark.parametrize(("kind", "levels"), [(1, 1), (4, 1), *pairs([2, 3, 5, 6], LEVELS)])
def test_every_number_of_levels(kind: int, levels: int) -> None:
    samples = np.random.default_rng(levels).integers(0, levels + 1, (22, 31, 3 if kind in (3, 6) else 1))
    data = pnm(kind, levels, samples)
    expected, actual = open_pnm(data), open_with_ours(data)
    assert expected is not None
    assert actual is not None
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("kind", [2, 3, 5, 6])
@pytest.mark.parametrize("levels", [256, 1000, 65534, 65535])
def test_more_than_8_bits_are_stored_as_16(kind: int, levels: int) -> None:
    samples = np.random.default_rng(levels).integers(0, levels + 1, (22, 31, 3 if kind in (3, 6) else 1))
    stored = to_numpy(load_image(pnm(kind, levels, samples), filter_desc=None))
    assert stored.dtype == np.uint16
    np.testing.assert_array_equal(stored, np.rint(samples / levels * 65535))


def test_samples_in_binary_above_the_largest_level_are_cut() -> None:
    for data in (b"P5 3 1 100 \x63\x64\xff", b"P6 1 1 300 \x01\x2c\x01\x2d\xff\xff"):
        np.testing.assert_array_equal(open_with_ours(data), open_with_pillow(data))


@pytest.mark.parametrize(
    "data",
    [
        b"P2\n#a\n# b\r2#c\n 1 9\n1 #d\n8#e",
        b"P2 1#2 pixels\n0 2 9 " + b"5 " * 20,  # A comment within a number.
        b"P5 2 1 255#c\n\n\1\2",
        b"P1 3 2 1#a\n0 1 0#b\n11",
        b"P1\t3\x0b2\x0c101010",
        b"P3 0001 1 0009 1 2 3 and more",
        b"P4\n9 2\n\xaa\x80\x55\0P4\n9 2\n" + bytes(4),
        b"P5 2 1 255 \1\2P5 2 1 255 \3\4",
        b"P6 1 1 255\r\n\1\2\3",
    ],
)
def test_comments_spaces_and_what_follows(data: bytes) -> None:
    expected = open_with_pillow(data)
    assert expected is not None
    np.testing.assert_array_equal(open_with_ours(data), expected)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"P5\n3 2\n65536\n" + bytes(12), "its largest level is said to be 65536: from 1 to 65535 are possible"),
        (b"P5\n3 2\n0\n" + bytes(6), "its largest level is said to be 0"),
        (b"P5\n3 2\n255x\n" + bytes(6), "its largest level is not a number"),
        (b"P5\n0 2\n255\n" + bytes(6), "its size is said to be 0x2"),
        (
            b"P5\n3 12345678901\n255\n" + bytes(6),
            "its height is not a number, or too large",
        ),
        (
            b"P5\n3 2\n255\n" + bytes(5),
            "the data is truncated: its 2 rows of 3 bytes are not in the 5 bytes behind its header",
        ),
        (
            b"P6\n3 2\n256\n" + bytes(35),
            "the data is truncated: its 2 rows of 18 bytes are not in the 35 bytes behind its",
        ),
        (
            b"P4\n9 2\n" + bytes(3),
            "the data is truncated: its 2 rows of 2 bytes are not in the 3 bytes behind its header",
        ),
        (b"P2\n3 2\n9\n1 2 3 4 5", "the data is truncated: it ends before its last pixel"),
        (b"P2\n3 2\n9\n1 2 3 4 5 10", "it has a sample of 10, above its largest level of 9"),
        (b"P2\n3000 2000\n9\n1 2 3", "the data is truncated: its 2000 rows of 3000 samples are not in the 5 bytes"),
        (b"P1\n3 2\n10102 1", "one of its bits is neither 0 nor 1"),
        (b"P1\n3 2\n10101 # 1", "the data is truncated: it ends before its last pixel"),
        (b"P3\n3", "the data is truncated: it ends before its height"),
    ],
)
def test_a_damaged_pnm_says_what_is_wrong(data: bytes, reason: str) -> None:
    assert open_with_pillow(data) is None
    with pytest.raises(RuntimeError, match=f"cannot decode the PNM: {reason}"):
        load_image(data)
