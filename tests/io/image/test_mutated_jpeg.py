"""Damaged JPEGs: Pillow's picture or an error, whichever way they are decoded."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageFilter
from tests.io.headers import jpeg_segment, scan_start, with_segment
from tests.io.image.mutated_files import (
    MAX_PIXELS,
    compare_with_pillow,
    mutated_files,
    open_with_ours,
    open_with_pillow,
)
from tests.io.images import Array, encode, make_image, make_jpeg

from spdl.io import (
    decode_config,
    decode_packets,
    demux_config,
    demux_image,
    encode_config,
    encode_image,
    load_image,
    load_image_batch,
    to_numpy,
)


def by_ffmpegs_encoder(image: Image.Image) -> bytes:
    file = io.BytesIO()
    planes = np.ascontiguousarray(np.moveaxis(np.asarray(image.convert("YCbCr")), -1, 0))
    encode_image(file, planes, "yuv444p", encode_config=encode_config(format="jpeg", encoder="mjpeg"))
    return file.getvalue()


def originals(image: Image.Image) -> dict[str, bytes]:
    """Every kind of JPEG that is in use, from several encoders."""

    def jpeg(**options: Any) -> bytes:
        return encode(image, "JPEG", **{"quality": 90, **options})

    return {
        "baseline": jpeg(),
        "4:4:4": jpeg(subsampling="4:4:4", optimize=True),
        "4:2:2": jpeg(subsampling="4:2:2"),
        "progressive": jpeg(progressive=True),
        "restarts": jpeg(restart_marker_blocks=2),
        "progressive with restarts": jpeg(progressive=True, restart_marker_rows=1),
        "gray": encode(image.convert("L"), "JPEG"),
        "segments": jpeg(icc_profile=bytes(range(256)) * 3, comment=b"a comment"),
        "FFmpeg's": by_ffmpegs_encoder(image),
    }


ORIGINALS = originals(make_image(123, 77))
CMYK = encode(make_image(123, 77).convert("CMYK"), "JPEG")


def with_marker(data: bytes, marker: bytes, share: float = 0.5) -> bytes:
    """Put a marker among the pixels."""
    start = scan_start(data)
    at = start + int(share * (len(data) - start))
    at += data[at - 1] == 0xFF
    return data[:at] + marker + data[at:]


def frame_again(data: bytes) -> bytes:
    begin = data.index(b"\xff\xc0")
    return data[begin : begin + 2 + int.from_bytes(data[begin + 2 : begin + 4], "big")]


@pytest.mark.parametrize("seed", [0, 1])
def test_damaged_files_are_pillows_or_an_error(seed: int) -> None:
    outcomes = compare_with_pillow({**ORIGINALS, "CMYK": CMYK}, 200, seed)
    assert not outcomes.wrong
    assert not outcomes.only_pillow_reads
    # Of both kinds, and not just files whose damage does not matter.
    assert len(outcomes.both_refuse) > 40
    assert len(outcomes.equal) - len(outcomes.undamaged) > 40


def test_a_damaged_file_can_be_had_as_pillow_gives_truncated_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    sound = make_jpeg(123, 77)
    kept = 0
    names = {name: data for name, data in ORIGINALS.items() if "progressive" not in name}
    for name, data in mutated_files(names, 200, seed=2):
        expected = open_with_pillow(data)
        if expected is None or expected.shape != (77, 123, 3):
            continue
        batch = load_image_batch(
            [sound, data],
            width=None,
            height=None,
            on_error="partial",
            decode_config=decode_config(max_pixels=MAX_PIXELS),
        )
        actual = to_numpy(batch)[1]
        if not batch.backends[1]:
            # What cannot be begun is zeros here. Pillow has nothing either, and says so or shows black.
            assert not actual.any()
            assert not expected.any(), name
            continue
        assert np.array_equal(actual, expected), name
        kept += len(batch.failures)
    assert kept > 20


# ---- By FFmpeg ---------------------------------------------------------------------------------------------------


def by_config(**config: Any) -> Callable[[bytes], Array]:
    def load(data: bytes) -> Array:
        array: Array = to_numpy(load_image(data, decode_config=decode_config(max_pixels=MAX_PIXELS, **config)))
        return array

    return load


def by_filters(**keywords: Any) -> Callable[[bytes], Array]:
    def load(data: bytes) -> Array:
        array: Array = to_numpy(load_image_batch([data], **keywords))
        return array

    return load


BY_FFMPEG: dict[str, Callable[[bytes], object]] = {
    "the backend": by_config(backend="ffmpeg"),
    "a decoder": by_config(decoder="mjpeg"),
    "a decoder's option": by_config(decoder_options={"flags": "gray"}),
    "a batch by the backend": by_filters(width=20, height=20, decode_config=decode_config(backend="ffmpeg")),
    "a pixel format": by_filters(width=20, height=20, pix_fmt="yuv420p"),
    "filters": by_filters(width=None, height=None, filter_desc="vflip,format=pix_fmts=rgb24"),
    "a demuxer": lambda data: load_image(data, demux_config=demux_config(format="jpeg_pipe")),
    "a demuxer, step by step": lambda data: decode_packets(
        demux_image(data, demux_config=demux_config(format="jpeg_pipe")).clone()
    ),
    "the stored format": lambda data: decode_packets(demux_image(data), filter_desc=None),
}


@pytest.mark.parametrize("way", BY_FFMPEG)
@pytest.mark.parametrize("kind", ["baseline", "progressive", "restarts", "gray"])
def test_a_truncated_file_is_an_error_for_ffmpeg_too(way: str, kind: str) -> None:
    data, load = ORIGINALS[kind], BY_FFMPEG[way]
    assert load(data) is not None
    start = data.index(b"\xff\xda")
    for size in [3, 100, start, *range(start + 14, len(data), 251), len(data) - 2, len(data) - 1]:
        with pytest.raises(RuntimeError, match="cannot"):
            load(data[:size])


MARKERS = {
    "a second frame": frame_again(ORIGINALS["baseline"]),
    "an unknown marker": b"\xff\x02",
    "an extension": b"\xff\xf0\x00\x04\x00\x00",
    "a start of image": b"\xff\xd8",
}


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("kind", ["baseline", "4:4:4", "restarts"])
def test_a_wrong_marker_among_the_pixels_is_an_error(kind: str, marker: str) -> None:
    data = with_marker(ORIGINALS[kind], MARKERS[marker])
    expected = open_with_pillow(data)
    if kind == "restarts" and marker == "an unknown marker":
        # libjpeg goes on at the next restart, in Pillow too.
        np.testing.assert_array_equal(to_numpy(load_image(data)), expected)
    else:
        assert expected is None
        with pytest.raises(RuntimeError, match="cannot decode the JPEG: the data is damaged"):
            load_image(data)
    for load in BY_FFMPEG.values():
        with pytest.raises(RuntimeError, match="cannot decode"):
            load(data)


@pytest.mark.parametrize("marker", [b"\xff\xd9", b"\xff\xd3"])
@pytest.mark.parametrize("kind", ["baseline", "progressive", "restarts"])
def test_pixels_that_are_missing_are_an_error_for_ffmpeg(kind: str, marker: bytes) -> None:
    data = with_marker(ORIGINALS[kind], marker)
    expected = open_with_pillow(data)
    # Pillow paints what is missing, and so do we.
    assert expected is not None
    if kind != "progressive":  # libjpeg-turbo smoothes what lacks details, each version in its own way.
        np.testing.assert_array_equal(to_numpy(load_image(data)), expected)
    for load in BY_FFMPEG.values():
        with pytest.raises(RuntimeError, match="cannot decode"):
            load(data)


def test_damaged_files_decoded_by_ffmpeg_are_close_to_pillows_or_an_error() -> None:
    # Of few colours, as photos are: chroma is interpolated otherwise.
    image = make_image(123, 77).filter(ImageFilter.GaussianBlur(2))
    image = Image.blend(image.convert("L").convert("RGB"), image, 0.1)
    outcomes = compare_with_pillow(originals(image), 200, ours=by_ffmpeg, most=1.5)
    assert not outcomes.only_we_read
    # Nobody can tell that a table is not the one that the pixels were made with: each decoder has its own picture then.
    assert len(outcomes.different) <= 4
    assert len(outcomes.equal) > 60


def by_ffmpeg(data: bytes) -> Array | None:
    try:
        return by_config(backend="ffmpeg")(data)
    except RuntimeError:
        return None


# ---- Where the damage is -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["baseline", "restarts"])
def test_damage_below_a_crop_does_not_matter_and_damage_within_does(kind: str) -> None:
    data = with_marker(ORIGINALS[kind], frame_again(ORIGINALS["baseline"]))
    keywords: dict[str, Any] = {"width": None, "height": None}
    above = to_numpy(load_image_batch([data], crop=[(10, 3, 90, 20)], **keywords))
    np.testing.assert_array_equal(above[0], open_with_pillow(ORIGINALS[kind])[3:20, 10:90])  # type: ignore[index]
    # Where pixels are missing, the data behind them decides.
    for box in ((10, 3, 90, 70), (0, 45, 10, 76), (10, 60, 90, 77)):
        with pytest.raises(RuntimeError, match="the data is damaged"):
            load_image_batch([data], crop=[box], **keywords)
        partial = load_image_batch([data], crop=[box], on_error="partial", **keywords)
        assert partial.failures[0].reason.startswith("the data is damaged: ")
        assert partial.failures[0].reason.endswith(": what there was of the image is kept")
        assert to_numpy(partial).any()


@pytest.mark.parametrize("marker", [b"\x00", b"\xd8", b"\xfe"])
def test_a_file_needs_a_marker_behind_its_start(marker: bytes) -> None:
    data = b"\xff\xd8" + marker + ORIGINALS["baseline"][3:]
    assert open_with_pillow(data) is None
    for load in (open_or_raise, *BY_FFMPEG.values()):
        with pytest.raises(RuntimeError, match="cannot"):
            load(data)


@pytest.mark.parametrize("start", [b"\x08\x2d", b"\xff", b"\xff\xd9\xff\xe0"])
def test_a_jpeg_behind_something_else_is_no_image(start: bytes) -> None:
    data = start + ORIGINALS["baseline"]
    assert open_with_pillow(data) is None
    with pytest.raises(RuntimeError, match="cannot read the image: "):
        load_image(data)


def test_what_the_header_must_not_have() -> None:
    data = ORIGINALS["baseline"]
    damaged = data[:2] + b"\xff\x01" + data[2:]
    assert open_with_pillow(damaged) is None
    assert open_with_ours(damaged) is None
    # A restart marker and unknown segments are passed over.
    for harmless in (
        data[:2] + b"\xff\xd3" + data[2:],
        with_segment(data, 0xEF, b"anything"),
        with_marker(data, b"", 1),
    ):
        np.testing.assert_array_equal(to_numpy(load_image(harmless)), open_with_pillow(data))


def test_what_follows_the_pixels_may_be_anything_but_a_frame() -> None:
    data = ORIGINALS["baseline"]
    for harmless in (jpeg_segment(0xFE, b"a comment"), b"\x01\x02", b"\xff\xd5", jpeg_segment(0xED, bytes(3000))):
        odd = data[:-2] + harmless + data[-2:]
        np.testing.assert_array_equal(to_numpy(load_image(odd)), open_with_pillow(odd))
    # The last one is behind all pixels: that it is cut is not noticed by Pillow either.
    cut = data[:-2] + jpeg_segment(0xED, bytes(3000))[:-7]
    np.testing.assert_array_equal(to_numpy(load_image(cut)), open_with_pillow(cut))


def open_or_raise(data: bytes) -> object:
    return load_image(data)
