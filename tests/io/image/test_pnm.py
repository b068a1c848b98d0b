"""PBM, PGM and PPM: every number of levels, in text and in binary, and what is wrong with damaged ones."""

import io

import numpy as np
import pytest
from PIL import Image
from tests.io.image.mutated_files import open_with_ours, open_with_pillow
from tests.io.image_files import pnm
from tests.io.images import Array
from tests.io.pairs import pairs

from spdl.io import load_image


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
    if kind in (3, 6) and levels > 255:
        # Pillow rounds to 8 bits, and 16-bit values keep their upper half here.
        assert np.abs(actual.astype(int) - expected).max() <= 1
    else:
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"P5\n3 2\n65536\n" + bytes(12), "its largest level is said to be 65536: from 1 to 65535 are possible"),
        (b"P5\n3 2\n0\n" + bytes(6), "its largest level is said to be 0"),
        (b"P5\n3 2\n255x\n" + bytes(6), "its largest level is no number"),
        (b"P5\n0 2\n255\n" + bytes(6), "its size is said to be 0x2"),
        (b"P5\n3 1000000000\n255\n" + bytes(6), "its height is no number, or too large a one"),
        (b"P5\n3 2\n255\n" + bytes(5), "its pixels take 6 bytes, and it has 5"),
        (b"P6\n3 2\n256\n" + bytes(35), "its pixels take 36 bytes, and it has 35"),
        (b"P4\n9 2\n" + bytes(3), "its pixels take 4 bytes, and it has 3"),
        (b"P2\n3 2\n9\n1 2 3 4 5", "it ends before its last pixel"),
        (b"P2\n3 2\n9\n1 2 3 4 5 10", "it has a sample of 10, above its largest level of 9"),
        (b"P2\n3000 2000\n9\n1 2 3", "its 6000000 samples are not in its 20 bytes"),
        (b"P1\n3 2\n10102 1", "one of its bits is neither 0 nor 1"),
        (b"P1\n3 2\n10101 # 1", "it ends before its last pixel"),
        (b"P3\n3", "it ends before its height"),
    ],
)
def test_a_damaged_pnm_says_what_is_wrong(data: bytes, reason: str) -> None:
    assert open_with_pillow(data) is None
    with pytest.raises(RuntimeError, match=f"cannot decode the image as pnm: {reason}"):
        load_image(data)
