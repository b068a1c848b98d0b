"""The image formats that the wheel's FFmpeg writes are those of the reference page's table."""

from pathlib import Path

import numpy as np
import pytest

from spdl.io import load_image, save_image, to_numpy

PIXELS = np.random.default_rng(0).integers(0, 256, (24, 40, 3), np.uint8)


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize("suffix", ["png", "bmp", "tiff", "ppm", "qoi"])
def test_lossless_formats_are_there(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"image.{suffix}"
    save_image(path, PIXELS)
    np.testing.assert_array_equal(to_numpy(load_image(path)), PIXELS)


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize("suffix", ["gif", "pgm"])
def test_gray_ones_are_there(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"image.{suffix}"
    save_image(path, PIXELS[..., 0], "gray")
    np.testing.assert_array_equal(to_numpy(load_image(path))[..., 0], PIXELS[..., 0])


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize("suffix", ["webp", "avif", "jp2"])
def test_others_are_an_error_that_says_what_to_do(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"FFmpeg has no encoder .*build spdl-turbo on that one: pip install"):
        save_image(tmp_path / f"image.{suffix}", PIXELS)
    assert list(tmp_path.iterdir()) == []
