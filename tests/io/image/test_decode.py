"""decode_packets: packets to frames."""

from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.io.images import decode_with_pillow, encode, make_image, make_jpeg

from spdl.io import (
    convert_frames,
    decode_config,
    decode_packets,
    demux_image,
    get_filter_desc,
    get_video_filter_desc,
    to_numpy,
)


def decode(data: bytes, *arguments: Any, **keywords: Any) -> Any:
    return to_numpy(convert_frames(decode_packets(demux_image(data), *arguments, **keywords)))


@pytest.mark.parametrize(
    "options",
    [
        {"subsampling": "4:4:4"},
        {"subsampling": "4:2:2"},
        {"subsampling": "4:2:0"},
        {"subsampling": "4:1:1"},
        {"progressive": True},
        {"restart_marker_blocks": 3},
        {"optimize": True},
        {"keep_rgb": True},
        {"quality": 1},
        {"quality": 100},
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [(123, 77), (16, 16), (1, 1), (17, 1), (1, 33)])
def test_jpeg_pixels_are_pillows(options: dict[str, Any], size: tuple[int, int]) -> None:
    data = make_jpeg(*size, **options)
    np.testing.assert_array_equal(decode(data), np.asarray(decode_with_pillow(data)))


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_gray_and_cmyk_jpegs_become_rgb_as_in_pillow(mode: str) -> None:
    data = encode(make_image(61, 43).convert(mode), "JPEG")
    np.testing.assert_array_equal(decode(data), np.asarray(decode_with_pillow(data)))


@pytest.mark.parametrize(
    ("file_format", "mode", "options"),
    [
        ("PNG", "RGB", {}),
        ("PNG", "RGBA", {}),
        ("PNG", "L", {}),
        ("PNG", "LA", {}),
        ("PNG", "P", {}),
        ("PNG", "1", {}),
        ("BMP", "RGB", {}),
        ("BMP", "L", {}),
        ("GIF", "P", {}),
        ("TIFF", "RGB", {}),
        ("TIFF", "RGB", {"compression": "tiff_lzw"}),
        ("PPM", "L", {}),
        ("WEBP", "RGB", {"lossless": True}),
    ],
    ids=str,
)
def test_lossless_formats_have_pillows_pixels(file_format: str, mode: str, options: dict[str, Any]) -> None:
    data = encode(make_image(61, 43).convert(mode), file_format, **options)
    np.testing.assert_array_equal(decode(data), np.asarray(decode_with_pillow(data)))


def test_an_animation_gives_its_first_picture() -> None:
    first, second = (make_image(31, 22, seed).quantize(64) for seed in (1, 2))
    data = encode(first, "GIF", save_all=True, append_images=[second])
    np.testing.assert_array_equal(decode(data), np.asarray(first.convert("RGB")))


def test_the_orientation_in_exif_is_not_applied() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert decode(make_jpeg(40, 20, exif=exif)).shape == (20, 40, 3)


def test_frames_tell_what_they_hold() -> None:
    frames = decode_packets(demux_image(make_jpeg(40, 20), name="photo"))
    assert (frames.width, frames.height, frames.pix_fmt, frames.num_planes) == (40, 20, "rgb24", 1)
    assert frames.pts == 0.0
    assert frames.metadata == {}
    assert repr(frames) == "ImageFrames(photo, 40x20, rgb24)"
    native = decode_packets(demux_image(make_jpeg(40, 20)), filter_desc=None)
    assert (native.pix_fmt, native.num_planes) == ("yuvj420p", 3)


@pytest.mark.parametrize("data", [make_jpeg(60, 40, subsampling="4:4:4"), encode(make_image(60, 40), "PNG")])
def test_other_filters_run_in_ffmpegs_graph(data: bytes) -> None:
    flipped = decode(data, filter_desc="hflip,format=pix_fmts=rgb24")
    assert np.abs(flipped.astype(int) - np.asarray(decode_with_pillow(data))[:, ::-1]).mean() < 1.0
    cropped = decode(data, filter_desc=get_video_filter_desc(crop_width=20, crop_height=10))
    assert cropped.shape == (10, 20, 3)
    cover = get_video_filter_desc(scale_width=30, scale_height=30, scale_mode="crop")
    assert decode(data, filter_desc=cover).shape == (30, 30, 3)


def test_the_served_resize_is_close_to_ffmpegs_own() -> None:
    data = make_jpeg(200, 150, subsampling="4:4:4")
    desc = get_filter_desc(scale_width=64, scale_height=48, scale_mode=None, scale_algo="bilinear")
    theirs = decode(data, filter_desc=f"null,{desc}")
    assert np.abs(decode(data, filter_desc=desc).astype(int) - theirs).mean() < 2.0


@pytest.mark.parametrize(
    ("desc", "words"),
    [
        ("no_such_filter", "no_such_filter"),
        ("scale=w=", "scale"),
        ("scale=w=2:h=4:flags=wrong", "wrong"),
        ("crop=w=9999:h=9999", "crop"),
        ("[", "cannot apply"),
    ],
)
def test_a_wrong_filter_is_an_error_with_ffmpegs_words(desc: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=f"^image of .*{words}"):
        decode(make_jpeg(), filter_desc=desc)


def test_the_decoder_can_be_chosen() -> None:
    data = make_jpeg(60, 40, subsampling="4:4:4")
    difference = np.abs(decode(data, decode_config=decode_config("mjpeg")).astype(int) - decode(data))
    assert 0 < difference.mean() < 1.5  # FFmpeg's own inverse DCT rounds otherwise.
    half = decode(data, decode_config=decode_config(decoder_options={"lowres": "1"}))
    assert half.shape == (20, 30, 3)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (decode_config("no_such"), 'FFmpeg has no decoder "no_such"'),
        (decode_config("png"), 'the decoder "png" does not decode "mjpeg"'),
        (decode_config(decoder_options={"nonsense": "1"}), 'the decoder "mjpeg" has no option "nonsense"'),
    ],
)
def test_a_wrong_decoder_or_option_is_an_error(config: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        decode(make_jpeg(), decode_config=config)


def test_packets_are_consumed_by_a_failure_too() -> None:
    packets = demux_image(make_jpeg()[:-300])
    with pytest.raises(RuntimeError, match="truncated"):
        decode_packets(packets)
    with pytest.raises(TypeError, match="consumed"):
        decode_packets(packets)


@pytest.mark.parametrize("num_frames", [0, -2])
def test_the_number_of_frames_is_checked(num_frames: int) -> None:
    packets = demux_image(make_jpeg())
    with pytest.raises(ValueError, match="`num_frames` must be an int: -1"):
        decode_packets(packets, num_frames=num_frames)
    assert decode_packets(packets, num_frames=1).width == 123


def test_what_are_no_packets_is_a_type_error() -> None:
    with pytest.raises(
        TypeError, match=r"^`packets` must be packets, as `demux_image`, `demux_audio` or .* returns, got b'' "
    ):
        decode_packets(b"")  # type: ignore[call-overload]


def test_a_description_is_text_without_null_characters() -> None:
    packets = demux_image(make_jpeg())
    with pytest.raises(TypeError, match=r"^`filter_desc` must be a str, got 3 "):
        decode_packets(packets, filter_desc=3)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"^`filter_desc` must be a str without null .*, got 'hflip\\x00,vflip' "):
        decode_packets(packets, filter_desc="hflip\0,vflip")
    assert decode_packets(packets).width == 123  # It was not consumed.


def test_ffmpeg_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    damaged = bytearray(encode(make_image(60, 40), "PNG"))
    damaged[60:90] = bytes(30)
    with pytest.raises(RuntimeError):
        decode(bytes(damaged))
    with pytest.raises(RuntimeError):
        decode(make_jpeg(), filter_desc="no_such_filter")
    with pytest.raises(RuntimeError):
        decode(make_jpeg()[:-100])
    assert capfd.readouterr() == ("", "")
