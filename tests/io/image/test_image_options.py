"""A record of options does what the arguments of the same names do."""

from __future__ import annotations

import dataclasses
import io
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from tests.io.images import encode, make_image, make_jpeg

from spdl.io import ImageOptions, LoadError, decode_config, load_image_batch, random_flip, to_numpy

PHOTO = make_jpeg(60, 44)


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return encode(make_image(32, 16), exif=exif.tobytes(), quality=95)


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "mode": st.sampled_from(["pad", "stretch", "crop"]),
    "interpolation": st.sampled_from(["nearest", "area", "bilinear", "bicubic", "lanczos"]),
    "pix_fmt": st.sampled_from(["rgb24", "bgr24"]),
    "layout": st.sampled_from(["NHWC", "NCHW"]),
    "dtype": st.sampled_from(["float16", "float32"]),
    "mean": st.none() | st.tuples(*[st.floats(0, 1)] * 3),
    "std": st.none() | st.tuples(*[st.floats(0.1, 1)] * 3),
    "exact": st.booleans(),
    "exif": st.booleans(),
}


@settings(max_examples=60)
@given(width=st.integers(1, 40), height=st.integers(1, 40), fields=st.fixed_dictionaries({}, optional=FIELDS))
def test_a_record_does_what_the_arguments_do(width: int, height: int, fields: dict[str, Any]) -> None:
    fields.setdefault("dtype", "float32")
    options = ImageOptions(width, height, **fields)
    flips = random_flip(range(2), seed=1, epoch=0)
    with_record = load_image_batch([PHOTO, turned()], options=options, flip=flips)
    arguments: dict[str, Any] = {"exif": True, **fields}
    with_arguments = load_image_batch([PHOTO, turned()], width=width, height=height, flip=flips, **arguments)
    assert to_numpy(with_record).tobytes() == to_numpy(with_arguments).tobytes()
    assert with_record.shape == with_arguments.shape
    assert pickle.loads(pickle.dumps(options)) == dataclasses.replace(options) == options  # noqa: S301 - our own.
    assert len({options, dataclasses.replace(options), dataclasses.replace(options, width=width + 1)}) == 2


def test_exif_does_not_depend_on_the_mode() -> None:
    with Image.open(io.BytesIO(turned())) as image:
        upright, stored = np.asarray(ImageOps.exif_transpose(image)), np.asarray(image)
    for mode in ("pad", "stretch", "crop"):
        for exif, expected in ((True, upright), (False, stored)):
            height, width = expected.shape[:2]
            loaded = load_image_batch([turned()], options=ImageOptions(width, height, mode=mode, exif=exif))
            assert (to_numpy(loaded)[0] == expected).all()
    # Without a mode, too.
    assert (to_numpy(load_image_batch([turned()], options=ImageOptions(16, 32)))[0] == upright).all()


def test_the_rest_belongs_to_the_call() -> None:
    options = ImageOptions(8, 8, decode_config=decode_config(max_pixels=100))
    with pytest.raises(LoadError, match="at most 100 pixels") as raised:
        load_image_batch([PHOTO], options=options)
    assert [(failure.index, failure.source) for failure in raised.value.failures] == [(0, PHOTO)]
    assert pickle.loads(pickle.dumps(raised.value)).failures == raised.value.failures  # noqa: S301 - our own.
    batch = load_image_batch([PHOTO, b"none"], options=ImageOptions(8, 8), on_error="zero", num_threads=2)
    assert (batch.shape, batch.failures[0].index) == ((2, 8, 8, 3), 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 8}, "`width` must be left out with `options`"),
        ({"width": None}, "`width` must be left out with `options`"),
        ({"mode": "pad"}, "`mode` must be left out"),
        ({"exif": False}, "`exif` must be left out"),
        ({"mean": np.zeros(3)}, "`mean` must be left out"),
        ({"filter_desc": None}, "`filter_desc` must be left out"),
        ({"options": {"width": 8}}, "`options` must be an ImageOptions"),
        ({"options": None}, r"needs `width`, or a record of `options`"),
        ({"options": None, "width": 8}, r"needs `height`.*`height=None`"),
    ],
)
def test_what_is_said_twice_or_not_at_all_is_an_error(arguments: dict[str, Any], message: str) -> None:
    call: Any = load_image_batch
    with pytest.raises(TypeError, match=message):
        call([PHOTO], **{"options": ImageOptions(8, 8), **arguments})


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"width": 0}, ValueError, "`width`"),
        ({"height": "8"}, TypeError, "`height`"),
        ({"width": 60000, "height": 60000}, ValueError, "at most 178000000 pixels"),
        ({"mode": "fit"}, ValueError, "`mode`"),
        ({"pix_fmt": "yuv420p"}, ValueError, "`pix_fmt`"),
        ({"layout": "CHWN"}, ValueError, "`layout`"),
        ({"mean": (1, 2, 3)}, ValueError, "`dtype`"),
        ({"mean": (1, 2), "dtype": "float32"}, ValueError, "`mean`"),
        ({"std": (1, 0, 1), "dtype": "float32"}, ValueError, "`std`"),
        ({"exact": "no"}, TypeError, "`exact`"),
        ({"exif": None}, TypeError, "`exif`"),
        ({"decode_config": 3}, TypeError, "`decode_config`"),
        ({"demux_config": {}}, TypeError, "`demux_config`"),
    ],
)
def test_wrong_fields_are_errors(fields: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ImageOptions(**{"width": 8, "height": 8, **fields})
