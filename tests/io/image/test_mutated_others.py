"""Damaged files of all formats but JPEG and PNG: Pillow's picture or an error, as far as can be told."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.io.image.mutated_files import compare_with_pillow, open_with_ours, open_with_pillow
from tests.io.image.test_pnm import open_pnm
from tests.io.image_files import bmp, pnm, run_length_bmp, tiff
from tests.io.images import Array, decode_with_pillow, encode, make_image

from spdl.io import encode_config, encode_image, load_image

IMAGE = make_image(61, 43)
ALPHA = Image.merge("RGBA", (*IMAGE.split(), make_image(61, 43, 1).getchannel(0)))


def encode_by_ffmpeg(image: Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    pix_fmt = {"RGB": "rgb24", "RGBA": "rgba", "L": "gray"}[image.mode]
    encode_image(file, np.asarray(image), pix_fmt=pix_fmt, encode_config=encode_config(**options))
    return file.getvalue()


def gifs() -> dict[str, bytes]:
    few = IMAGE.quantize(16)
    return {
        "256 colours": encode(IMAGE.quantize(256), "GIF", interlace=0),
        "interlaced": encode(IMAGE.quantize(64), "GIF", interlace=1),
        "transparent": encode(few, "GIF", transparency=3),
        "animated": encode(few, "GIF", save_all=True, append_images=[make_image(61, 43, 2).quantize(16)]),
    }


def test_damaged_gifs() -> None:
    outcomes = compare_with_pillow(gifs(), 200)
    assert not outcomes.wrong
    assert len(outcomes.equal) > 40
    assert len(outcomes.both_refuse) > 40
    assert len(outcomes.only_pillow_reads) < 3


def qois() -> dict[str, bytes]:
    flat = Image.new("RGB", (61, 43), (9, 8, 7))
    flat.paste(IMAGE.crop((0, 0, 20, 20)), (5, 5))
    return {
        "RGB": encode_by_ffmpeg(IMAGE, format="qoi"),
        "RGBA": encode_by_ffmpeg(ALPHA, format="qoi"),
        "flat": encode_by_ffmpeg(flat, format="qoi"),
    }


def test_damaged_qois() -> None:
    outcomes = compare_with_pillow(qois(), 200)
    assert not outcomes.wrong
    assert len(outcomes.equal) > 40
    assert len(outcomes.both_refuse) > 20
    assert not outcomes.only_pillow_reads


@pytest.mark.parametrize("kind", ["RGB", "RGBA", "flat"])
def test_a_qoi_that_ends_early_is_an_error(kind: str) -> None:
    data = qois()[kind]
    np.testing.assert_array_equal(open_with_ours(data), np.asarray(decode_with_pillow(data)))
    for size in [*range(12, len(data) - 9, 101), len(data) - 9]:
        reason = f"cannot decode the QOI: the data is truncated: its {size} bytes end before its picture does"
        with pytest.raises(RuntimeError, match=reason):
            load_image(data[:size])
    # The mark at the end is no part of the picture.
    for size in (len(data) - 8, len(data) - 1):
        np.testing.assert_array_equal(open_with_ours(data[:size]), np.asarray(decode_with_pillow(data)))


def tiffs() -> dict[str, bytes]:
    images = {
        "RGB": IMAGE,
        "gray": IMAGE.convert("L"),
        "palette": IMAGE.quantize(64),
        "one bit": IMAGE.convert("1"),
        "gray with alpha": ALPHA.convert("LA"),
        "RGBA": ALPHA,
        "16 bits": Image.fromarray(np.random.default_rng(0).integers(0, 65536, (30, 40), np.uint16)),
    }
    files = {
        f"{kind}, {compression}": encode(image, "TIFF", compression=compression)
        for kind, image in images.items()
        for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "zstd")
    }
    pixels = np.asarray(IMAGE)
    return files | {
        "fax": encode(IMAGE.convert("1"), "TIFF", compression="group4"),
        "differences": encode(IMAGE, "TIFF", compression="tiff_lzw", tiffinfo={317: 2}),
        "strips": tiff(pixels, rows=7),
        "planes": tiff(pixels, rows=7, planar=True),
        "big-endian": tiff(pixels, rows=7, order=">"),
    }


@pytest.mark.parametrize("seed", range(3))
def test_damaged_tiffs(seed: int) -> None:
    outcomes = compare_with_pillow(tiffs(), 200, seed)
    # Of an entry that claims more values than there are strips, libtiff takes those that it needs. Pillow leaves it out
    # if they reach beyond the file.
    assert len(outcomes.wrong) <= 1
    assert len(outcomes.equal) > 40
    assert len(outcomes.both_refuse) > 80
    assert len(outcomes.only_pillow_reads) < 40


def bmps() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    colors = rng.integers(0, 256, (16, 3))
    return {
        "RGB": encode(IMAGE, "BMP"),
        "gray": encode(IMAGE.convert("L"), "BMP"),
        "one bit": encode(IMAGE.convert("1"), "BMP"),
        "palette": encode(IMAGE.quantize(64), "BMP"),
        "4 bits": bmp(rng.integers(0, 16, (43, 61)), 4, palette=colors),
        "RGBA": encode(ALPHA, "BMP"),
        "from the top on": bmp(np.asarray(IMAGE), 24, top_down=True),
        "run lengths": run_length_bmp(rng.integers(0, 4, (43, 61))),
    }


def open_bmp(data: bytes) -> Array | None:
    """Open it with ours. Pillow takes bytes for bits if there are no colours but black and white: that is not ours."""
    picture = open_with_ours(data)
    if picture is not None and open_with_pillow(data) is not None and data[28] > 1:
        with Image.open(io.BytesIO(data)) as image:
            return open_with_pillow(data) if image.mode == "1" else picture
    return picture


@pytest.mark.parametrize("seed", range(3))
def test_damaged_bmps(seed: int) -> None:
    outcomes = compare_with_pillow(bmps(), 200, seed, ours=open_bmp)
    assert not outcomes.wrong
    assert len(outcomes.equal) > 80
    assert len(outcomes.both_refuse) > 30
    assert len(outcomes.only_pillow_reads) < 3


def pnms() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    files = {}
    for kind, levels in [
        (1, 1),
        (2, 100),
        (2, 4095),
        (3, 255),
        (4, 1),
        (5, 255),
        (5, 254),
        (5, 65535),
        (6, 255),
        (6, 9),
    ]:
        samples = rng.integers(0, levels + 1, (22, 31, 3 if kind in (3, 6) else 1))
        files[f"P{kind} {levels}"] = pnm(kind, levels, samples)
    return files


@pytest.mark.parametrize("seed", range(3))
def test_damaged_pnms(seed: int) -> None:
    outcomes = compare_with_pillow(pnms(), 200, seed, ours=open_wide_gray)
    assert not outcomes.wrong
    assert len(outcomes.equal) > 60
    assert len(outcomes.both_refuse) > 40
    assert not outcomes.only_pillow_reads


def open_wide_gray(data: bytes) -> Array | None:
    """Open it with ours. Pillow cuts gray of more than 8 bits at 255, where ours keeps the upper half."""
    picture, expected = open_with_ours(data), open_pnm(data)
    if picture is not None and expected is not None and np.array_equal(picture, expected):
        return open_with_pillow(data)
    return picture
