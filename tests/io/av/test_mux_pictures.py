"""Muxer: pictures, checked by decoding again, and by the ffmpeg command."""

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.muxing import encode_video, need, pictures, psnr, write_all

from spdl.io import (
    Muxer,
    convert_frames,
    create_reference_video_frame,
    decode_packets,
    demux_video,
    load_video,
    to_numpy,
    video_encode_config,
)

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize(
    ("pix_fmt", "cut"), [("rgb24", np.s_[...]), ("bgr24", np.s_[..., ::-1]), ("gray", np.s_[..., 0])]
)
@pytest.mark.parametrize("step", [1, 5, 100])
def test_ffv1_keeps_every_pixel(pix_fmt: str, cut: Any, step: int) -> None:
    array = np.ascontiguousarray(pictures()[cut])
    file = encode_video(array, encoder="ffv1", pix_fmt=pix_fmt, step=step)
    np.testing.assert_array_equal(
        to_numpy(load_video(file)), pictures() if pix_fmt != "gray" else array[..., None].repeat(3, -1)
    )
    packets = demux_video(file)
    assert packets.codec.name == "ffv1"
    assert packets.get_timestamps() == pytest.approx([n / 30 for n in range(12)], abs=0.001)


@pytest.mark.parametrize("encoder", ["ffv1", "rawvideo"])
def test_planes_keep_every_sample(encoder: str) -> None:
    array = np.ascontiguousarray(pictures().transpose(0, 3, 1, 2))
    file = encode_video(array, container="nut", encoder=encoder, pix_fmt="yuv444p")
    decoded = to_numpy(convert_frames(decode_packets(demux_video(file), filter_desc=None)))
    np.testing.assert_array_equal(decoded, array)


def test_sixteen_bits_stay() -> None:
    array = (np.arange(3 * 20 * 30) * 36).astype(np.uint16).reshape(3, 20, 30)
    file = encode_video(array, encoder="ffv1", pix_fmt="gray16")
    decoded = to_numpy(convert_frames(decode_packets(demux_video(file), filter_desc=None)))
    np.testing.assert_array_equal(decoded[..., 0], array)


@pytest.mark.parametrize(
    "encoder", ["mpeg4", "mjpeg", "libx264", "libopenh264", "libvpx-vp9", "libsvtav1", "libaom-av1"]
)
def test_lossy_codecs_come_close(encoder: str) -> None:
    array = pictures(height=64)  # Some take no smaller ones.
    quality: dict[str, Any] = {"qscale": 2} if encoder in ("mpeg4", "mjpeg") else {"bit_rate": 2_000_000}
    file = encode_video(array, encoder=need(encoder), **quality)
    decoded = to_numpy(load_video(file))
    assert decoded.shape == array.shape
    # The chroma of these pictures is halved, so that much is lost in any case.
    assert psnr(decoded, array, 255) > 27
    assert min(psnr(decoded[i], array[i], 255) for i in range(12)) > 25
    assert psnr(decoded[0], array[11], 255) < 20


@pytest.mark.parametrize(
    ("name", "codecs"),
    [
        ("clip.mp4", {"h264", "mpeg4"}),
        ("clip.mov", {"h264", "mpeg4"}),
        ("clip.mkv", {"h264", "mpeg4"}),
        ("clip.avi", {"mpeg4"}),
        ("clip.webm", {"vp9", "vp8", "av1"}),
        ("clip.ts", {"mpeg2video", "h264"}),
    ],
)
def test_the_suffix_names_the_format(tmp_path: Path, name: str, codecs: set[str]) -> None:
    path = tmp_path / name
    try:
        encode_video(pictures(), path)
    except RuntimeError as error:
        if "the name does not tell the file format" in str(error) or "no usual video encoder" in str(error):
            pytest.skip(str(error))
        raise
    packets = demux_video(path)
    assert packets.codec.name in codecs
    assert len(packets) == 12
    assert to_numpy(load_video(path)).shape == (12, 48, 64, 3)
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert oracle.errors(path) == ""


def test_times_are_those_of_the_frames(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    muxer = Muxer(path)
    config = video_encode_config(height=48, width=64, frame_rate=(30000, 1001))
    encoder = muxer.add_encode_stream(config, encoder="mpeg4")
    frames = [create_reference_video_frame(pictures(4), "rgb24", (30000, 1001), pts) for pts in (0, 10)]
    write_all(muxer, [encoder], [frames])
    expected = [Fraction(1001 * n, 30000) for n in (0, 1, 2, 3, 10, 11, 12, 13)]
    assert [packet.pts for packet in oracle.packets(path)] == expected
    (stream,) = oracle.streams(path)
    assert (stream["codec_name"], stream["width"], stream["height"]) == ("mpeg4", 64, 48)
    assert oracle.are_same(to_numpy(load_video(path)), oracle.pictures(path))


def test_frames_of_another_rate_are_rounded_but_never_joined() -> None:
    muxer = Muxer(io.BytesIO(), format="matroska")
    encoder = muxer.add_encode_stream(video_encode_config(height=48, width=64, frame_rate=25), encoder="mpeg4")
    with muxer.open(), pytest.raises(RuntimeError, match=r"is not after the one before it.*25/1.*frame_rate"):
        encoder.encode(create_reference_video_frame(pictures(12), "rgb24", 60, 0))


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"height": 48, "width": 60}, "made for frames of 60x48 rgb24, but these are of 64x48 rgb24.*get_video_filter"),
        (
            {"height": 48, "width": 64, "pix_fmt": "bgr24"},
            "made for frames of 64x48 bgr24, but these are of 64x48 rgb24",
        ),
    ],
)
def test_other_frames_are_refused(config: dict[str, Any], complaint: str) -> None:
    muxer = Muxer(io.BytesIO(), format="matroska")
    encoder = muxer.add_encode_stream(video_encode_config(**config), encoder="mpeg4")
    with muxer.open(), pytest.raises(RuntimeError, match=complaint):
        encoder.encode(create_reference_video_frame(pictures(1), "rgb24", 25, 0))


@pytest.mark.parametrize(
    ("options", "encoder", "complaint"),
    [
        ({"pix_fmt": "yuv444p"}, "mpeg4", 'encoder "mpeg4" does not take .*"yuv444p" but yuv420p: pass one of these'),
        ({}, "gif", 'encoder "gif" does not take the pixel format "rgb24" but rgb8, .*format=pix_fmts'),
        ({"pix_fmt": "rgba"}, "mpeg4", 'encoder "mpeg4" does not take .*"rgba" but yuv420p'),
        ({"pix_fmt": "bogus"}, "mpeg4", 'no pixel format "bogus"'),
        ({}, "bogus", 'has no encoder "bogus". A file in the format "matroska" can hold .*ffv1.*mpeg4'),
        ({}, "flac", 'the encoder "flac" does not encode video'),
        ({"colorspace": "bogus"}, "mpeg4", 'FFmpeg knows no colorspace "bogus"'),
    ],
)
def test_what_an_encoder_cannot_do(options: dict[str, Any], encoder: str, complaint: str) -> None:
    muxer = Muxer(io.BytesIO(), format="matroska")
    with pytest.raises(RuntimeError, match=complaint):
        muxer.add_encode_stream(video_encode_config(height=48, width=64, **options), encoder=encoder)


def test_levels_of_arrays_are_those_of_the_configuration() -> None:
    array = np.ascontiguousarray(pictures(3).transpose(0, 3, 1, 2))
    file = io.BytesIO()
    muxer = Muxer(file, format="avi")
    config = video_encode_config(height=48, width=64, pix_fmt="yuvj444p", qscale=1)
    encoder = muxer.add_encode_stream(config, encoder="mjpeg")
    write_all(muxer, [encoder], [[create_reference_video_frame(array, "yuv444p", 25, 0)]])
    packets = demux_video(file.getvalue())
    decoded = to_numpy(convert_frames(decode_packets(packets, filter_desc=None)))
    assert psnr(decoded, array, 255) > 40


def test_odd_sides_are_refused_by_the_encoder_or_kept() -> None:
    array = pictures(3, 47, 63)
    assert to_numpy(load_video(encode_video(array, encoder="ffv1"))).shape == array.shape
    need("libx264")
    with pytest.raises(RuntimeError, match="not divisible by 2"):
        encode_video(array, encoder="libx264")


def test_options_reach_the_encoder() -> None:
    small, large = (len(encode_video(pictures(), encoder="mjpeg", qscale=scale)) for scale in (31, 2))
    assert small < large * 0.6
    every = demux_video(encode_video(pictures(), encoder="mpeg4", gop_size=1))
    assert len(every) == 12
    with pytest.raises(RuntimeError, match='encoder "mpeg4" has no option "bogus"'):
        encode_video(pictures(), encoder="mpeg4", encoder_config={"bogus": "1"})


def test_colors_are_converted_as_they_are_marked(tmp_path: Path) -> None:
    for colorspace in ("bt709", "smpte170m"):
        path = tmp_path / f"{colorspace}.mkv"
        encode_video(
            np.full((2, 48, 64, 3), (200, 30, 60), np.uint8), path, encoder="mpeg4", qscale=1, colorspace=colorspace
        )
        (stream,) = oracle.streams(path)
        assert stream.get("color_space") == colorspace
        assert np.abs(to_numpy(load_video(path)).astype(int) - (200, 30, 60)).max() <= 4
