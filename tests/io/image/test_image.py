"""load_image: one input to one array."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.images import decode_with_pillow, encode, make_image, make_jpeg

from spdl.io import decode_config, get_filter_desc, load_image, to_numpy


def test_the_default_is_rgb_in_the_images_own_size(tmp_path: Path) -> None:
    data = make_jpeg(60, 40)
    path = tmp_path / "photo.jpg"
    path.write_bytes(data)
    for content in (data, path, str(path)):
        np.testing.assert_array_equal(to_numpy(load_image(content)), np.asarray(decode_with_pillow(data)))


def test_the_description_and_the_configurations_are_passed_on() -> None:
    data = encode(make_image(60, 40), "PNG")
    desc = get_filter_desc(scale_width=30, scale_height=30, pix_fmt="rgb24")
    assert load_image(data, filter_desc=desc).shape == (30, 30, 3)
    assert load_image(data, filter_desc=None).shape == (40, 60, 3)
    with pytest.raises(RuntimeError, match=r"^logo: .*does not decode"):
        load_image(data, decode_config=decode_config("mjpeg"), name="logo")


def test_what_is_no_device_is_named_before_anything_is_read() -> None:
    device: Any = "cuda:0"
    with pytest.raises(TypeError, match=r"^`device_config` must be a CUDAConfig, as .*, got 'cuda:0' "):
        load_image(b"no image", device_config=device)
