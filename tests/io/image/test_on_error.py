"""on_error: the treatment of images that fail."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.io.images import encode, make_image, make_jpeg

from spdl.io import LoadError, load_image_batch, to_numpy

SIZE: dict[str, Any] = {"width": 40, "height": 30, "mode": "stretch"}
GOOD = [make_jpeg(80, 60, seed) for seed in range(3)]
TRUNCATED = make_jpeg(80, 60, 5)[:-900]


@pytest.mark.parametrize("num_threads", [1, 3])
def test_zero_keeps_the_place_of_a_failed_image(num_threads: int) -> None:
    inputs = [b"junk", GOOD[0], TRUNCATED, GOOD[1], "missing.jpg", GOOD[2]]
    batch = load_image_batch(inputs, on_error="zero", num_threads=num_threads, dtype="float32", **SIZE)
    good = to_numpy(load_image_batch(GOOD, dtype="float32", **SIZE))
    array = to_numpy(batch)
    assert array.shape == (6, 30, 40, 3)
    np.testing.assert_array_equal(array[[1, 3, 5]], good)
    assert not array[[0, 2, 4]].any()
    assert [failure.index for failure in batch.failures] == [0, 2, 4]
    assert batch.backends == ("", "libjpeg-turbo", "", "libjpeg-turbo", "", "libjpeg-turbo")


@pytest.mark.parametrize("num_threads", [1, 3])
def test_skip_leaves_it_out(num_threads: int) -> None:
    inputs = [b"junk", GOOD[0], TRUNCATED, GOOD[1], "missing.jpg", GOOD[2]]
    batch = load_image_batch(inputs, on_error="skip", num_threads=num_threads, **SIZE)
    np.testing.assert_array_equal(to_numpy(batch), to_numpy(load_image_batch(GOOD, **SIZE)))
    assert [failure.index for failure in batch.failures] == [0, 2, 4]
    assert batch.backends == ("libjpeg-turbo",) * 3


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 4}], ids=str)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_partial_keeps_libjpegs_picture_of_a_truncated_file(share: float, options: dict[str, Any]) -> None:
    whole = make_jpeg(80, 60, 1, **options)
    scan = whole.index(b"\xff\xda")
    data = whole[: scan + int(share * (len(whole) - scan))]
    batch = load_image_batch([GOOD[0], data, b"junk"], on_error="partial", **SIZE)
    # libjpeg paints the same where it meets the end of the image before all of it was there.
    with Image.open(io.BytesIO(data + b"\xff\xd9")) as file:
        expected = file.convert("RGB").resize((40, 30), Image.Resampling.BICUBIC)
    array = to_numpy(batch)
    # The smoothing of blocks whose details are missing rounds otherwise in other versions of libjpeg-turbo.
    most = 1 if options.get("progressive") else 0
    assert np.abs(array[1].astype(int) - np.asarray(expected)).max() <= most
    assert not array[2].any()
    assert [failure.index for failure in batch.failures] == [1, 2]
    assert batch.failures[0].reason == "the data is truncated: what there was of the image is kept"


def test_partial_of_a_file_without_a_picture_is_a_failure() -> None:
    whole = make_jpeg(80, 60)
    batch = load_image_batch([GOOD[0], whole[: whole.index(b"\xff\xda")]], on_error="partial", **SIZE)
    assert not to_numpy(batch)[1].any()
    assert batch.failures[0].reason.startswith("cannot decode the JPEG: ")


def test_the_size_may_come_from_a_later_image() -> None:
    batch = load_image_batch([b"junk", GOOD[0]], width=None, height=None, on_error="zero", num_threads=2)
    assert batch.shape == (2, 60, 80, 3)
    assert not to_numpy(batch)[0].any()
    assert to_numpy(batch)[1].any()


@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize("on_error", ["zero", "partial"])
@pytest.mark.parametrize(
    "options",
    [{}, {"layout": "NCHW", "dtype": "float16", "mean": [0.5] * 3, "std": [0.2] * 3}, {"pix_fmt": "gray"}],
    ids=str,
)
def test_places_are_kept_if_all_images_fail(on_error: Any, options: dict[str, Any], num_threads: int) -> None:
    alike = load_image_batch(GOOD, **SIZE, **options)
    storage = np.full(alike.nbytes, 7, np.uint8)
    for memory in (None, storage):
        batch = load_image_batch(
            [b"junk", b"", "missing.jpg"],
            on_error=on_error,
            storage=memory,
            num_threads=num_threads,
            **SIZE,
            **options,
        )
        assert (batch.shape, batch.dtype) == (alike.shape, alike.dtype)
        assert not to_numpy(batch).any()
        assert [failure.index for failure in batch.failures] == [0, 1, 2]
        assert "No such file" in batch.failures[2].reason
        assert batch.backends == ("", "", "")


def test_a_center_is_a_known_size() -> None:
    description = "scale=w=40:h=30:flags=bicubic,crop=w=20:h=10,format=pix_fmts=rgb24"
    batch = load_image_batch([b"junk"], width=None, height=None, filter_desc=description, on_error="zero")
    assert batch.shape == (1, 10, 20, 3)


@pytest.mark.parametrize("on_error", ["zero", "partial"])
def test_zeros_of_an_unknown_size_are_an_error(on_error: Any) -> None:
    for size in ({"width": None, "height": 30}, {"width": 40, "height": None}, {"width": None, "height": None}):
        with pytest.raises(LoadError, match=r"(?s)2 of 2 images could .* unknown: give both width and height") as it:
            load_image_batch([b"junk", b""], on_error=on_error, **size)
        assert [failure.index for failure in it.value.failures] == [0, 1]


def test_leaving_all_images_out_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="2 of 2 images could not be loaded"):
        load_image_batch([b"junk", b""], on_error="skip", **SIZE)


def test_raise_names_the_failures() -> None:
    for keywords in ({"on_error": "raise"}, {"strict": True}, {}):
        with pytest.raises(RuntimeError, match="1 of 2 images could not be loaded"):
            load_image_batch([b"junk", GOOD[0]], **keywords, **SIZE)


def test_strict_and_on_error_say_the_same() -> None:
    with pytest.raises(ValueError, match=r"^`on_error` must be None with `strict=False`, .*, got 'skip' "):
        load_image_batch(GOOD, strict=False, on_error="skip", **SIZE)
    with pytest.raises(ValueError, match="`on_error` must be 'raise', 'skip', 'zero' or 'partial', got 'drop'"):
        load_image_batch(GOOD, on_error="drop", **SIZE)  # type: ignore[call-overload]


@pytest.mark.parametrize("num_threads", [2, 5, 64])
def test_threads_share_a_batch(num_threads: int) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(20, 200, (40, 2)).tolist()
    inputs = [make_jpeg(width, height, seed) for seed, (width, height) in enumerate(sizes)]
    inputs[7] = encode(make_image(30, 20), "PNG")
    expected = to_numpy(load_image_batch(inputs, **SIZE))
    for _ in range(5):
        np.testing.assert_array_equal(to_numpy(load_image_batch(inputs, num_threads=num_threads, **SIZE)), expected)


def test_ffmpegs_filters_go_with_raise_and_skip_alone() -> None:
    batch = load_image_batch(
        [b"junk", GOOD[0]], width=None, height=None, filter_desc="vflip,format=rgb24", on_error="skip", num_threads=2
    )
    assert batch.shape == (1, 60, 80, 3)
    with pytest.raises(ValueError, match=r"^`(filter_desc|pix_fmt)` must be .* with `crop`, `flip`"):
        load_image_batch(GOOD, width=None, height=None, filter_desc="vflip", on_error="zero")
