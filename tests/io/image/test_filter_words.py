"""Filter texts that say the same in other words: images get the same pixels by them, Pillow's."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from spdl.io import demux_image, get_video_filter_desc, load_image, load_image_batch, to_numpy

if TYPE_CHECKING:
    from tests.io.images import Array

SIDES = (123, 77)


def jpeg(mode: str) -> bytes:
    colors = np.random.default_rng(0).integers(0, 255, (12, 16, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(colors).resize(SIDES, Image.Resampling.BICUBIC).convert(mode).save(file, "JPEG", subsampling=2)
    return file.getvalue()


def load(data: bytes, filters: str | None) -> Array:
    image = load_image(data, filter_desc=filters)
    assert image.backends == ("libjpeg-turbo",), filters
    pixels: Array = to_numpy(image)
    return pixels


def shown(data: bytes) -> Array:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_colors(mode: str) -> None:
    """FFmpeg upsamples chroma in another way, and takes ink for light."""
    data = jpeg(mode)
    rgb = shown(data)
    opaque = np.full((*rgb.shape[:2], 1), 255, np.uint8)
    for filters in ("format=rgb24", " format = 'rgb24'", "format=pix_fmts=rgb24", "format=rgb24|rgba"):
        np.testing.assert_array_equal(load(data, filters), rgb)
    np.testing.assert_array_equal(load(data, "format=bgr24"), rgb[..., ::-1])
    np.testing.assert_array_equal(load(data, "format=rgba"), np.dstack([rgb, opaque]))
    np.testing.assert_array_equal(load(data, "format=argb,vflip"), np.dstack([opaque, rgb])[::-1])
    np.testing.assert_array_equal(load(data, "format=gbrp|gbrap").transpose(1, 2, 0), rgb[..., [1, 2, 0]])
    np.testing.assert_array_equal(
        to_numpy(load_image_batch([data], width=None, height=None, filter_desc="format=rgba"))[0, ..., :3], rgb
    )


def test_inks_without_filters() -> None:
    data = jpeg("CMYK")
    np.testing.assert_array_equal(load(data, None), shown(data))
    np.testing.assert_array_equal(load(data, "hflip,format=rgb24"), shown(data)[:, ::-1])
    np.testing.assert_array_equal(load(data, "vflip"), shown(data)[::-1])
    assert demux_image(data).pix_fmt == "rgb24"


@pytest.mark.parametrize("flags", ["", ":bilinear", ":flags=lanczos"])
def test_sizes(flags: str) -> None:
    data = jpeg("RGB")
    algorithm = flags.rpartition("=")[2].strip(":") or "bicubic"
    named = get_video_filter_desc(scale_width=40, scale_height=30, scale_mode=None, scale_algo=algorithm)
    padded = get_video_filter_desc(scale_width=40, scale_height=30, scale_algo=algorithm)
    expected = load(data, named)
    np.testing.assert_array_equal(load(data, f"scale=40:30{flags},format=rgb24"), expected)
    np.testing.assert_array_equal(load(data, f"scale=40:30{flags}, hflip, format=rgb24"), expected[:, ::-1])
    fitted = f"scale=40:30{flags}:force_original_aspect_ratio=decrease,pad=40:30:-1:-1,format=rgb24"
    np.testing.assert_array_equal(load(data, fitted), load(data, padded))
    cut = f"scale=40:30{flags}:force_original_aspect_ratio=increase,crop=40:30,crop=20:10,format=gray"
    names = {"scale_width": 40, "scale_height": 30, "crop_width": 20, "crop_height": 10}
    whole = get_video_filter_desc(**names, scale_mode="crop", scale_algo=algorithm, pix_fmt="gray")  # type: ignore[arg-type]
    np.testing.assert_array_equal(load(data, cut), load(data, whole))


def test_texts_with_a_null_character_are_refused() -> None:
    with pytest.raises(ValueError, match="null character"):
        load_image_batch([jpeg("RGB")], width=None, height=None, filter_desc="format=rgb24\0")
