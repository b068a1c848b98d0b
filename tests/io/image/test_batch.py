"""load_image_batch: many inputs to one array."""

import io
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io.images import encode, make_image, make_jpeg, resize_with_pillow, write_jpegs

from spdl.io import (
    LoadFailure,
    convert_frames,
    cpu_storage,
    decode_config,
    decode_packets,
    demux_config,
    demux_image,
    load_image_batch,
    to_numpy,
)


def test_the_rows_are_the_images_in_order(tmp_path: Path) -> None:
    paths = write_jpegs(tmp_path, 5)
    batch = load_image_batch(paths, width=40, height=30, mode="stretch", interpolation="bilinear")
    assert batch.shape == (5, 30, 40, 3)
    assert batch.dtype == "uint8"
    assert batch.failures == ()
    for row, path in zip(to_numpy(batch), paths, strict=True):
        np.testing.assert_array_equal(row, resize_with_pillow(Path(path).read_bytes(), 40, 30, "bilinear"))


def test_any_iterable_of_any_kind_of_input_will_do(tmp_path: Path) -> None:
    path = Path(write_jpegs(tmp_path, 1)[0])
    data = path.read_bytes()

    class Name:
        def __fspath__(self) -> str:
            return str(path)

    with path.open("rb") as file:
        inputs = [
            str(path),
            path,
            Name(),
            data,
            bytearray(data),
            memoryview(data),
            np.frombuffer(data, np.uint8),
            io.BytesIO(data),
            file,
        ]
        batch = to_numpy(load_image_batch(iter(inputs), width=20, height=20))
    for row in batch[1:]:
        np.testing.assert_array_equal(row, batch[0])


def test_one_batch_mixes_formats() -> None:
    image = make_image(90, 60)
    lossless = [encode(image, name) for name in ("PNG", "BMP", "TIFF", "PPM")]
    batch = to_numpy(load_image_batch([make_jpeg(90, 60), *lossless], width=33, height=44, mode="stretch"))
    for row, data in zip(batch, [make_jpeg(90, 60), *lossless], strict=True):
        np.testing.assert_array_equal(row, resize_with_pillow(data, 33, 44, "bicubic"))


@settings(deadline=None, max_examples=60)
@given(
    source=st.tuples(st.integers(1, 200), st.integers(1, 200)),
    target=st.tuples(st.integers(1, 200), st.integers(1, 200)),
)
def test_padding_centres_the_whole_image_on_black(source: tuple[int, int], target: tuple[int, int]) -> None:
    data = make_jpeg(*source)
    row = to_numpy(load_image_batch([data], width=target[0], height=target[1]))[0]
    # The sides that FFmpeg's scale filter computes: to nearest, halves up, at least 1.
    width = min(max((target[1] * source[0] + source[1] // 2) // source[1], 1), target[0])
    height = min(max((target[0] * source[1] + source[0] // 2) // source[0], 1), target[1])
    left, top = (target[0] - width) // 2, (target[1] - height) // 2
    expected = np.zeros((target[1], target[0], 3), np.uint8)
    expected[top : top + height, left : left + width] = resize_with_pillow(data, width, height, "bicubic")
    np.testing.assert_array_equal(row, expected)


@pytest.mark.parametrize("size", [(200, 100), (100, 200), (101, 67), (50, 50), (333, 7), (224, 224)])
@pytest.mark.parametrize("target", [(64, 64), (33, 90), (300, 20)])
def test_padding_has_the_geometry_of_ffmpegs_filters(size: tuple[int, int], target: tuple[int, int]) -> None:
    # White, so that what the image covers can be seen in the result.
    data = encode(make_image(*size).point(lambda _: 255), "JPEG")
    width, height = target
    # The filter "null" makes it a description that FFmpeg's own graph has to run.
    desc = (
        f"scale=w={width}:h={height}:flags=bicubic:force_original_aspect_ratio=decrease,"
        f"pad=w={width}:h={height}:x=-1:y=-1:color=black,null,format=pix_fmts=rgb24"
    )
    theirs = to_numpy(convert_frames(decode_packets(demux_image(data), filter_desc=desc)))
    ours = to_numpy(load_image_batch([data], width=width, height=height))[0]
    np.testing.assert_array_equal(ours > 127, theirs > 127)


@pytest.mark.parametrize(
    ("width", "height", "mode", "shape"),
    [
        (None, None, "pad", (90, 120, 3)),
        (None, None, "stretch", (90, 120, 3)),
        (60, None, "pad", (45, 60, 3)),
        (None, 30, "pad", (30, 40, 3)),
        (60, None, "stretch", (90, 60, 3)),
        (None, 30, "stretch", (30, 120, 3)),
    ],
)
def test_an_open_side_follows_from_the_image(width: Any, height: Any, mode: Any, shape: tuple[int, ...]) -> None:
    batch = load_image_batch([make_jpeg(120, 90)] * 2, width=width, height=height, mode=mode)
    assert batch.shape == (2, *shape)


def test_open_sides_need_images_of_one_size() -> None:
    inputs = [make_jpeg(120, 90), make_jpeg(100, 90)]
    with pytest.raises(RuntimeError, match=r"srcs\[1\].*it becomes 100x90, but the images before it 120x90"):
        load_image_batch(inputs, width=None, height=None)


def test_failures_are_left_out_and_listed(tmp_path: Path) -> None:
    good = write_jpegs(tmp_path, 3)
    missing = tmp_path / "missing.jpg"
    truncated = make_jpeg()[:500]
    inputs = [good[0], missing, good[1], truncated, good[2], b"no image at all"]
    batch = load_image_batch(inputs, width=32, height=32, strict=False)
    np.testing.assert_array_equal(to_numpy(batch), to_numpy(load_image_batch(good, width=32, height=32)))
    assert [type(failure) for failure in batch.failures] == [LoadFailure] * 3
    assert [failure.index for failure in batch.failures] == [1, 3, 5]
    assert [failure.source for failure in batch.failures] == [missing, truncated, b"no image at all"]
    assert "No such file" in batch.failures[0].reason
    assert "truncated" in batch.failures[1].reason
    assert "failures=3" in repr(batch)


def test_a_failure_late_in_an_image_leaves_no_trace() -> None:
    # The half that could be decoded is overwritten by the next image.
    good = make_jpeg(seed=1)
    bad = make_jpeg(seed=2)
    batch = load_image_batch([bad[: len(bad) // 2], good], width=50, height=50, strict=False)
    np.testing.assert_array_equal(to_numpy(batch), to_numpy(load_image_batch([good], width=50, height=50)))


def test_strict_names_the_failures_and_the_remedy(tmp_path: Path) -> None:
    missing = [tmp_path / f"{i}.jpg" for i in range(8)]
    with pytest.raises(RuntimeError) as raised:
        load_image_batch([make_jpeg(), *missing], width=8, height=8)
    lines = str(raised.value).splitlines()
    assert lines[0] == "8 of 9 images could not be loaded"
    assert lines[1] == f"  srcs[1], {missing[0]}: cannot open the file: No such file or directory"
    assert lines[6] == "  and 3 more"
    assert lines[7].startswith('Pass on_error="skip"')


def test_all_failing_is_an_error_even_when_not_strict() -> None:
    with pytest.raises(RuntimeError, match="2 of 2 images could not be loaded"):
        load_image_batch([b"nothing", b""], width=8, height=8, strict=False)


def test_an_empty_batch_is_an_error() -> None:
    with pytest.raises(ValueError, match="`srcs` must be at least one input"):
        load_image_batch([], width=8, height=8)


def test_what_is_no_input_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"`srcs\[1\]` must be a path.*got 7 "):
        load_image_batch([make_jpeg(), 7], width=8, height=8)


def test_a_batch_beyond_memory_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(
        RuntimeError, match=r"^an array of shape .* does not fit this machine's memory.*: ask for fewer"
    ):
        load_image_batch([make_jpeg()] * 4000, width=13000, height=13000, strict=False)


def test_an_output_of_too_many_pixels_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`width` x `height` is at most 178000000 pixels, got \(65535, 65535\) "):
        load_image_batch([make_jpeg()], width=65535, height=65535)


def test_an_image_that_becomes_too_large_fails_alone() -> None:
    inputs = [make_jpeg(2, 4000), make_jpeg(30, 20)]
    batch = load_image_batch(inputs, width=60_000, height=None, mode="stretch", strict=False)
    assert batch.shape == (1, 20, 60_000, 3)
    assert [failure.index for failure in batch.failures] == [0]
    assert batch.failures[0].reason.startswith("an output size of 60000x4000 is outside what is accepted")


@pytest.mark.parametrize("strict", [True, False])
def test_a_batch_that_has_no_room_is_refused_before_its_images_are_read(tmp_path: Path, strict: bool) -> None:  # noqa: FBT001
    # Opening a pipe that nobody writes to would block for ever.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    storage = cpu_storage(10, pin_memory=False)
    message = (
        r"^the storage of 10 bytes is too small for the 768 of an array of shape \(1, 16, 16, 3\): "
        r"make one of at least 768 bytes$"
    )
    with pytest.raises(RuntimeError, match=message):
        load_image_batch([pipe], width=16, height=16, storage=storage, strict=strict)
    with pytest.raises(RuntimeError, match=r"^an array of shape .* does not fit this machine's memory"):
        load_image_batch([pipe] * 4000, width=13000, height=13000, strict=strict)


def test_a_batch_that_has_no_room_is_no_fault_of_its_images() -> None:
    # With an open side, the size is known only with the first image.
    with pytest.raises(RuntimeError, match=r"^the storage of 10 bytes is too small for the 1728 of"):
        load_image_batch(
            [b"junk", make_jpeg(16, 12), make_jpeg(16, 12)],
            width=16,
            height=None,
            strict=False,
            storage=cpu_storage(10, pin_memory=False),
        )


@pytest.mark.parametrize(
    "single", ["photo.jpg", Path("photo.jpg"), b"data", bytearray(1), io.BytesIO(b"line\nline"), 7]
)
def test_a_single_input_is_no_batch(single: Any) -> None:
    shown = re.escape(repr(single))
    with pytest.raises(
        TypeError, match=rf"^`srcs` must be an iterable of inputs, got {shown} \(.*test_batch.py:.*\[src\]"
    ):
        load_image_batch(single, width=8, height=8)


def test_a_storage_is_named_when_it_is_none() -> None:
    with pytest.raises(
        TypeError,
        match=r"^`storage` must be a CPUStorage, as `cpu_storage` returns, a writable array, or None, got 3 ",
    ):
        load_image_batch([make_jpeg()], width=8, height=8, storage=3)


@pytest.mark.parametrize("wrong", [None, np.zeros(16, np.uint8)[::2], np.zeros((2, 2), np.uint8), io.StringIO()])
def test_an_input_of_the_wrong_type_is_named_by_its_index(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"^`srcs\[2\]` must be "):
        load_image_batch([make_jpeg(), make_jpeg(), wrong], width=8, height=8, strict=False)


@pytest.mark.parametrize("path", ["a\0b.jpg", "ä\0b.jpg", ""])
@pytest.mark.parametrize("pix_fmt", ["rgb24", "gray"])
def test_a_path_that_cannot_be_one_is_a_failure_of_its_image(path: str, pix_fmt: str) -> None:
    batch = load_image_batch([path, make_jpeg()], width=8, height=8, pix_fmt=pix_fmt, strict=False)
    expected = "its path holds a null character" if path else "its path is empty"
    assert batch.failures == (LoadFailure(0, path, f"cannot open the file: {expected}"),)
    shown = path.replace("\0", "\\x00") or "''"
    with pytest.raises(RuntimeError, match=re.escape(f"srcs[1], {shown}: cannot open the file: {expected}")):
        load_image_batch([make_jpeg(), path], width=8, height=8, pix_fmt=pix_fmt)


@pytest.mark.parametrize("pix_fmt", ["bgr24", "gray"])
def test_other_pixel_formats_come_from_ffmpegs_filters(pix_fmt: str) -> None:
    data = encode(make_image(40, 40), "PNG")
    batch = to_numpy(load_image_batch([data, data], width=None, height=None, pix_fmt=pix_fmt))
    rgb = np.asarray(make_image(40, 40))
    if pix_fmt == "bgr24":
        np.testing.assert_array_equal(batch[0], rgb[..., ::-1])
    else:
        assert batch.shape == (2, 40, 40, 1)
        luma = rgb @ np.array([0.299, 0.587, 0.114])
        assert np.abs(batch[1, ..., 0] - luma).mean() < 1.5


def test_a_filter_description_replaces_the_resize(tmp_path: Path) -> None:
    data = encode(make_image(40, 30), "PNG")
    batch = to_numpy(load_image_batch([data], width=8, height=8, filter_desc="hflip,format=pix_fmts=rgb24"))
    np.testing.assert_array_equal(batch[0], np.asarray(make_image(40, 30))[:, ::-1])
    missing = tmp_path / "missing.png"
    with pytest.raises(RuntimeError) as raised:
        load_image_batch([data, missing], width=8, height=8, filter_desc="hflip")
    lines = str(raised.value).splitlines()
    assert lines[0] == "1 of 2 images could not be loaded"
    assert lines[1] == f"  srcs[1], {missing}: cannot open the file: No such file or directory"
    partial = load_image_batch([b"junk", data], width=8, height=8, filter_desc="hflip", strict=False)
    assert partial.failures[0].reason.startswith("cannot read the image: ")


def test_configurations_reach_ffmpeg() -> None:
    data = encode(make_image(40, 30), "PNG")
    expected = to_numpy(load_image_batch([data], width=20, height=20))
    for keywords in ({"demux_config": demux_config(format="png_pipe")}, {"decode_config": decode_config("png")}):
        np.testing.assert_array_equal(to_numpy(load_image_batch([data], width=20, height=20, **keywords)), expected)


def test_what_is_no_device_is_named_before_anything_is_read() -> None:
    device: Any = "cuda:0"
    with pytest.raises(TypeError, match=r"^`device_config` must be a CUDAConfig, as .*, got 'cuda:0' "):
        load_image_batch([b"no image"], width=8, height=8, device_config=device)
