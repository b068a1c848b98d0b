"""Muxer: encoding and remuxing, checked by decoding again, and by the ffmpeg command."""

import gc
import io
import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.ffmpeg import need_ffmpeg, run_ffprobe

from spdl.io import (
    AudioPackets,
    Muxer,
    VideoEncodeConfig,
    VideoPackets,
    audio_encode_config,
    convert_frames,
    create_reference_audio_frame,
    create_reference_video_frame,
    decode_packets,
    demux_audio,
    demux_video,
    load_audio,
    load_video,
    to_numpy,
    video_encode_config,
)

Array = np.ndarray[Any, Any]

RATE = (30, 1)


def pictures(count: int = 12, height: int = 48, width: int = 64) -> Array:
    """Return smooth moving pictures (N, H, W, 3)."""
    n, y, x = np.mgrid[:count, :height, :width]
    channels = [128 + 100 * np.sin((x + k * y + 3 * n) / (9 + 2 * k)) for k in range(3)]
    return np.stack(channels, -1).round().astype(np.uint8)


def tones(count: int = 9000, channels: int = 2, rate: int = 48000) -> Array:
    """Return tones (samples, channels) as floats from -0.5 to 0.5."""
    time = np.arange(count)[:, None] / rate
    return (0.5 * np.sin(2 * np.pi * 440 * (1 + np.arange(channels)) * time)).astype(np.float32)


def write_all(muxer: Muxer, encoders: list[Any], pieces: list[list[Any]], **options: Any) -> None:
    with muxer.open(**options):
        for index, (encoder, frames) in enumerate(zip(encoders, pieces, strict=True)):
            for piece in frames:
                if (packets := encoder.encode(piece)) is not None:
                    muxer.write(index, packets)
            if (packets := encoder.flush()) is not None:
                muxer.write(index, packets)


def encode_video(
    array: Array,
    dst: Any = None,
    *,
    container: str = "matroska",
    encoder: str | None = None,
    step: int = 5,
    **config: Any,
) -> bytes:
    """Encode (N, H, W[, C]) pictures and return the file."""
    pix_fmt = config.setdefault("pix_fmt", "rgb24")
    planar = pix_fmt == "yuv444p"
    height, width = array.shape[2:4] if planar else array.shape[1:3]
    file = io.BytesIO()
    muxer = Muxer(file if dst is None else dst, format=container if dst is None else None)
    options = config.pop("encoder_config", None)
    settings = video_encode_config(height=height, width=width, frame_rate=RATE, **config)
    made = muxer.add_encode_stream(settings, encoder=encoder, encoder_config=options)
    pieces = [
        create_reference_video_frame(array[start : start + step], pix_fmt, RATE, start)
        for start in range(0, len(array), step)
    ]
    write_all(muxer, [made], [pieces])
    return file.getvalue()


def encode_audio(
    array: Array, sample_fmt: str, *, container: str, encoder: str | None = None, rate: int = 48000, step: int = 1000
) -> bytes:
    """Encode samples (N, channels) of a packed format and return the file."""
    file = io.BytesIO()
    muxer = Muxer(file, format=container)
    config = audio_encode_config(num_channels=array.shape[1], sample_rate=rate, sample_fmt=sample_fmt)
    made = muxer.add_encode_stream(config, encoder=encoder)
    pieces = [
        create_reference_audio_frame(array[start : start + step], sample_fmt, rate, start)
        for start in range(0, len(array), step)
    ]
    write_all(muxer, [made], [pieces])
    return file.getvalue()


def psnr(a: Array, b: Array, peak: float) -> float:
    return float(10 * np.log10(peak**2 / np.mean((a.astype(np.float64) - b.astype(np.float64)) ** 2)))


def need(name: str) -> str:
    """Skip the test if the FFmpeg in use has no such encoder."""
    muxer = Muxer(io.BytesIO(), format="matroska")
    probe: Any = video_encode_config(height=16, width=16, pix_fmt="yuv420p")
    try:
        muxer.add_encode_stream(probe, encoder=name)
    except RuntimeError as error:
        if "FFmpeg has no encoder" in str(error):
            pytest.skip(f"FFmpeg has no encoder {name}")
    return name


# Video.


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
    np.testing.assert_array_equal(oracle.pictures(path), to_numpy(load_video(path)))


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


# Audio.


@pytest.mark.parametrize(
    "form",
    [
        ("wav", None, "u8", np.uint8),
        ("wav", None, "s16", np.int16),
        ("wav", None, "s32", np.int32),
        ("wav", None, "flt", np.float32),
        ("wav", None, "dbl", np.float64),
        ("flac", None, "s16", np.int16),
        ("matroska", "flac", "s16", np.int16),
        ("ipod", "alac", "s16", np.int16),
        ("matroska", "pcm_s16le", "s16", np.int16),
        ("wv", "wavpack", "s16", np.int16),
        ("matroska", "pcm_f32le", "flt", np.float32),
    ],
)
@pytest.mark.parametrize(("channels", "step"), [(1, 700), (2, 5000), (2, 100_000)])
def test_lossless_codecs_keep_every_sample(form: tuple[str, str | None, str, Any], channels: int, step: int) -> None:
    container, encoder, sample_fmt, dtype = form
    sound = tones(channels=channels)
    scale = {"u1": 100, "i2": 2**15, "i4": 2**30}.get(np.dtype(dtype).str[1:], 1)
    array = (sound * scale + (128 if dtype is np.uint8 else 0)).astype(dtype)
    file = encode_audio(array, sample_fmt, container=container, encoder=encoder, step=step)
    decoded = to_numpy(load_audio(file, filter_desc=f"aformat=sample_fmts={sample_fmt}"))
    np.testing.assert_array_equal(decoded, array)


@pytest.mark.parametrize(
    ("container", "encoder"),
    [
        ("mp4", "aac"),
        ("adts", "aac"),
        ("ogg", "libopus"),
        ("webm", "libopus"),
        ("mp3", "libmp3lame"),
        ("ogg", "libvorbis"),
    ],
)
@pytest.mark.parametrize("sample_fmt", ["flt", "s16"])
def test_lossy_sound_comes_close(container: str, encoder: str, sample_fmt: str) -> None:
    sound = tones(48000)
    array = sound if sample_fmt == "flt" else (sound * 2**15).astype(np.int16)
    try:
        file = encode_audio(array, sample_fmt, container=container, encoder=encoder)
    except RuntimeError as error:
        if "FFmpeg has no" in str(error):
            pytest.skip(str(error))
        raise
    decoded = to_numpy(load_audio(file, filter_desc="aformat=sample_fmts=flt"))
    # Where the container does not say what the encoder has put in front, it is at the beginning.
    late = len(decoded) - len(sound)
    assert late >= -128
    assert (
        max(psnr(decoded[k : k + 40000], sound[:40000], 1) for k in {0, *(k for k in (1024, 1105) if k <= late)}) > 25
    )


def test_frames_of_any_length_are_cut_to_those_of_the_encoder() -> None:
    muxer = Muxer(io.BytesIO(), format="mp4")
    encoder = muxer.add_encode_stream(audio_encode_config(num_channels=1, sample_rate=48000), encoder="aac")
    assert encoder.frame_size == 1024
    wav = Muxer(io.BytesIO(), format="wav")
    assert wav.add_encode_stream(audio_encode_config(num_channels=1, sample_rate=8000)).frame_size == 0


def test_gaps_in_sound_stay_gaps(tmp_path: Path) -> None:
    path = tmp_path / "sound.mka"
    muxer = Muxer(path)
    config = audio_encode_config(num_channels=1, sample_rate=48000, sample_fmt="s16")
    encoder = muxer.add_encode_stream(config, encoder="pcm_s16le")
    sound = np.zeros((4800, 1), np.int16)
    frames = [create_reference_audio_frame(sound, "s16", 48000, pts) for pts in (0, 48000)]
    write_all(muxer, [encoder], [frames])
    assert [packet.pts for packet in oracle.packets(path, "a:0")] == [0, 1]


def test_sound_that_goes_back_in_time_is_refused() -> None:
    muxer = Muxer(io.BytesIO(), format="wav")
    encoder = muxer.add_encode_stream(audio_encode_config(num_channels=1, sample_rate=8000, sample_fmt="s16"))
    frames = create_reference_audio_frame(np.zeros((4000, 1), np.int16), "s16", 8000, 0)
    with muxer.open():
        encoder.encode(frames)
        with pytest.raises(RuntimeError, match="begin before the end of those before them"):
            encoder.encode(frames)


@pytest.mark.parametrize(
    ("container", "encoder", "config", "complaint"),
    [
        ("flac", None, {}, '"flac" does not take the sample format "fltp" but s16, s32: pass one.*aformat=sample_fmts'),
        ("flac", None, {"sample_fmt": "bogus"}, 'no sample format "bogus"; there are u8'),
        (
            "matroska",
            "libopus",
            {"sample_rate": 44100},
            "does not take 44100 samples per second but .*48000.*aresample",
        ),
        ("webm", "flac", {"sample_fmt": "s16"}, '"webm" cannot hold the codec "flac"'),
        ("wav", "mpeg4", {}, '"mpeg4" does not encode audio'),
        ("matroska", "bogus", {}, 'has no encoder "bogus".*can hold .*flac'),
    ],
)
def test_what_an_encoder_of_sound_cannot_do(
    container: str, encoder: str | None, config: dict[str, Any], complaint: str
) -> None:
    if encoder == "libopus":
        need(encoder)
    muxer = Muxer(io.BytesIO(), format=container)
    settings = audio_encode_config(**{"num_channels": 2, "sample_rate": 48000, **config})
    with pytest.raises(RuntimeError, match=complaint):
        muxer.add_encode_stream(settings, encoder=encoder)


def test_other_sound_is_refused() -> None:
    muxer = Muxer(io.BytesIO(), format="wav")
    encoder = muxer.add_encode_stream(audio_encode_config(num_channels=2, sample_rate=48000))
    with (
        muxer.open(),
        pytest.raises(RuntimeError, match=r"made for 2 channels of fltp at 48000 Hz, but these.* 8000 Hz"),
    ):
        encoder.encode(create_reference_audio_frame(np.zeros((2, 100), np.float32), "fltp", 8000, 0))


# Several streams, and packets as they are.


def both_media(dst: Any, *, sound_encoder: str = "aac", **options: Any) -> None:
    muxer = Muxer(dst, **options)
    video = muxer.add_encode_stream(video_encode_config(height=48, width=64, frame_rate=RATE), encoder="mpeg4")
    audio = muxer.add_encode_stream(audio_encode_config(num_channels=2, sample_rate=48000), encoder=sound_encoder)
    frames = create_reference_video_frame(pictures(30), "rgb24", RATE, 0)
    sound = create_reference_audio_frame(np.ascontiguousarray(tones(48000).T), "fltp", 48000, 0)
    write_all(muxer, [video, audio], [[frames], [sound]])


def test_sound_and_pictures_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "both.mp4"
    both_media(path)
    assert to_numpy(load_video(path)).shape == (30, 48, 64, 3)
    assert load_audio(path).shape[0] == 2
    assert [stream["codec_type"] for stream in oracle.streams(path)] == ["video", "audio"]
    assert float(oracle.container(path)["duration"]) == pytest.approx(1, abs=0.05)
    assert oracle.errors(path) == ""


@pytest.mark.parametrize("container", ["matroska", "mp4", "mov"])
def test_remuxed_packets_are_those_of_the_source(container: str) -> None:
    source = io.BytesIO()
    # Its decoder begins with no noise of its own, whatever the container says of the beginning.
    both_media(source, sound_encoder="ac3", format="matroska")
    video, audio = demux_video(source.getvalue()), demux_audio(source.getvalue())
    file = io.BytesIO()
    muxer = Muxer(file, format=container)
    muxer.add_remux_stream(video.codec)
    muxer.add_remux_stream(audio.codec)
    with muxer.open():
        muxer.write(0, video)
        muxer.write(1, audio)
    assert payloads(demux_video(file.getvalue())) == payloads(video)
    assert payloads(demux_audio(file.getvalue())) == payloads(audio)
    assert demux_video(file.getvalue()).get_timestamps() == pytest.approx(video.get_timestamps(), abs=0.001)
    expected = to_numpy(load_video(source.getvalue()))
    np.testing.assert_array_equal(to_numpy(load_video(file.getvalue())), expected)


def payloads(packets: VideoPackets | AudioPackets) -> int:
    """Return a number that differs if a byte of a packet does, but for those that a container has sound begin with."""
    decoded: Any = to_numpy(convert_frames(decode_packets(packets.clone(), filter_desc=None)))
    return hash((decoded if isinstance(packets, VideoPackets) else decoded[:, -40_000:]).tobytes())


def test_remuxed_bytes_are_identical(tmp_path: Path) -> None:
    need_ffmpeg()
    source, copy = tmp_path / "source.mkv", tmp_path / "copy.mp4"
    both_media(source, sound_encoder="mp2")
    muxer = Muxer(copy)
    muxer.add_remux_stream(demux_video(source).codec)
    muxer.add_remux_stream(demux_audio(source).codec)
    with muxer.open():
        muxer.write(0, demux_video(source))
        muxer.write(1, demux_audio(source))
    hashes = [oracle_hashes(path) for path in (source, copy)]
    assert hashes[0] == hashes[1]
    assert len(hashes[0]) > 60


def oracle_hashes(path: Path) -> list[str]:
    command = ("-of", "json", "-show_entries", "packet=data_hash", "-show_data_hash", "md5", path)
    return sorted(packet["data_hash"] for packet in json.loads(run_ffprobe(*command))["packets"])


def test_packets_are_not_consumed() -> None:
    packets = demux_video(encode_video(pictures(), encoder="mpeg4"))
    for _ in range(2):
        muxer = Muxer(io.BytesIO(), format="mp4")
        muxer.add_remux_stream(packets.codec)
        with muxer.open():
            muxer.write(0, packets)
    assert len(packets) == 12


def test_packets_of_another_codec_are_refused() -> None:
    packets = demux_video(encode_video(pictures(), encoder="mpeg4"))
    muxer = Muxer(io.BytesIO(), format="matroska")
    muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="ffv1")
    with muxer.open():
        with pytest.raises(RuntimeError, match='takes packets of the codec "ffv1", but these are of "mpeg4"'):
            muxer.write(0, packets)
        with pytest.raises(RuntimeError, match="no stream 1: the Muxer has 1"):
            muxer.write(1, packets)


# Files.


def half_written(dst: Any) -> Muxer:
    muxer = Muxer(dst)
    encoder = muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    muxer.open()
    packets = encoder.encode(create_reference_video_frame(pictures(), "rgb24", 25, 0))
    assert packets is not None
    muxer.write(0, packets)
    return muxer


@pytest.mark.parametrize("old", [b"old", None])
def test_a_file_appears_when_it_is_complete(tmp_path: Path, old: bytes | None) -> None:
    path = tmp_path / "clip.mp4"
    if old is not None:
        path.write_bytes(old)
        path.chmod(0o640)
    muxer = half_written(path)
    assert (path.read_bytes() if path.exists() else None) == old
    muxer.close()
    muxer.close()
    assert len(demux_video(path)) == 12
    assert [each.name for each in tmp_path.iterdir()] == ["clip.mp4"]
    if old is not None:
        assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("how", ["exception", "dropped"])
def test_an_abandoned_file_leaves_nothing(tmp_path: Path, how: str) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"old")
    muxer = half_written(path)
    assert len(list(tmp_path.iterdir())) == 2
    if how == "exception":
        with pytest.raises(ZeroDivisionError), muxer:
            raise ZeroDivisionError
        with pytest.raises(RuntimeError, match="was closed"):
            muxer.flush()
    del muxer
    gc.collect()
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["clip.mp4"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_remove_the_file(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    muxer = half_written(path)
    child = os.fork()
    if child == 0:
        muxer._abandon()
        os._exit(0)
    os.waitpid(child, 0)
    muxer.close()
    assert len(demux_video(path)) == 12


def test_what_encoders_hold_back_is_written_when_the_muxer_closes() -> None:
    file = io.BytesIO()
    muxer = Muxer(file, format="flac")
    encoder = muxer.add_encode_stream(audio_encode_config(num_channels=1, sample_rate=8000, sample_fmt="s16"))
    with muxer.open():
        assert encoder.encode(create_reference_audio_frame(np.ones((100, 1), np.int16), "s16", 8000, 0)) is None
    assert load_audio(file.getvalue()).shape == (1, 100)


def test_a_file_without_seek() -> None:
    class Pipe:
        def __init__(self) -> None:
            self.pieces: list[bytes] = []

        def write(self, piece: bytes) -> int:
            self.pieces.append(piece[:1000])
            return len(piece[:1000])

    pipe = Pipe()
    muxer = Muxer(pipe, format="matroska")  # type: ignore[arg-type]
    encoder = muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="ffv1")
    write_all(muxer, [encoder], [[create_reference_video_frame(pictures(), "rgb24", 25, 0)]])
    np.testing.assert_array_equal(to_numpy(load_video(b"".join(pipe.pieces))), pictures())
    muxer = Muxer(Pipe(), format="mp4")  # type: ignore[arg-type]
    muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    with pytest.raises(RuntimeError, match="does not support non seekable output"):
        muxer.open()


def test_a_file_is_written_from_its_position_on() -> None:
    file = io.BytesIO(b"before")
    file.seek(6)
    muxer = Muxer(file, format="mp4")
    encoder = muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    write_all(muxer, [encoder], [[create_reference_video_frame(pictures(), "rgb24", 25, 0)]])
    assert file.getvalue()[:6] == b"before"
    assert len(demux_video(file.getvalue()[6:])) == 12


@pytest.mark.parametrize("to_path", [True, False])
def test_the_index_can_be_moved_to_the_front(tmp_path: Path, to_path: bool) -> None:  # noqa: FBT001
    path, file = tmp_path / "clip.mp4", io.BytesIO()
    muxer = Muxer(path) if to_path else Muxer(file, format="mp4")
    encoder = muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    frames = create_reference_video_frame(pictures(), "rgb24", 25, 0)
    write_all(muxer, [encoder], [[frames]], muxer_config={"movflags": "+faststart"})
    data = path.read_bytes() if to_path else file.getvalue()
    assert data.index(b"moov") < data.index(b"mdat")
    assert len(demux_video(data)) == 12


def test_what_a_file_raises_comes_through() -> None:
    class Full(io.BytesIO):
        def write(self, piece: Any) -> int:
            raise OSError(28, "No space left on device")

    muxer = Muxer(Full(), format="mp4")
    muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    with pytest.raises(OSError, match="No space left"), muxer.open():
        pass


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("the system has no /dev/full")
    link = tmp_path / "clip.mkv"
    link.symlink_to(full)
    muxer = Muxer(link)
    encoder = muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    with pytest.raises(RuntimeError, match=r"clip\.mkv.*No space left on device"):
        write_all(muxer, [encoder], [[create_reference_video_frame(pictures(), "rgb24", 25, 0)]])


def test_wrong_places_and_formats(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"the name does not tell the file format.*suffix"):
        Muxer(tmp_path / "clip")
    with pytest.raises(RuntimeError, match='no muxer "bogus"'):
        Muxer(tmp_path / "clip", format="bogus")
    with pytest.raises(RuntimeError, match="save_image writes single images"):
        Muxer(tmp_path / "frame%03d.png")
    with pytest.raises(TypeError, match="`dst` must be a path"):
        Muxer(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`format` must be a file format, since an open file"):
        Muxer(io.BytesIO())
    muxer = Muxer(tmp_path / "missing" / "clip.mp4")
    muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    with pytest.raises(RuntimeError, match=r"missing/clip\.mp4': cannot write the file: No such file or directory"):
        muxer.open()


def test_the_order_of_calls() -> None:
    muxer = Muxer(io.BytesIO(), format="mp4")
    with pytest.raises(RuntimeError, match="has no streams: call add_encode_stream"):
        muxer.open()
    encoder = muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    with pytest.raises(RuntimeError, match="is not open: call open"):
        muxer.flush()
    with pytest.raises(TypeError, match="`config` must be a configuration"):
        muxer.add_encode_stream(3)  # type: ignore[call-overload]
    with muxer.open():
        with pytest.raises(RuntimeError, match="only be added before the Muxer is opened"):
            muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
        with pytest.raises(RuntimeError, match="was opened before"):
            muxer.open()
        assert encoder.encode(create_reference_video_frame(pictures(), "rgb24", 25, 0)) is not None
        encoder.flush()
        assert encoder.flush() is None
        with pytest.raises(RuntimeError, match="was flushed and takes no more"):
            encoder.encode(create_reference_video_frame(pictures(), "rgb24", 25, 20))
    with pytest.raises(RuntimeError, match="was closed"):
        muxer.write(0, demux_video(encode_video(pictures())))


def test_wrong_options_leave_no_file(tmp_path: Path) -> None:
    muxer = Muxer(tmp_path / "clip.mp4")
    muxer.add_encode_stream(video_encode_config(height=48, width=64), encoder="mpeg4")
    with pytest.raises(RuntimeError, match='muxer "mp4" has no option "bogus"'):
        muxer.open({"bogus": "1"})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("argument", "value", "error"),
    [
        ("height", 0, ValueError),
        ("width", "64", TypeError),
        ("frame_rate", 29.97, TypeError),
        ("frame_rate", (30, 0), ValueError),
        ("pix_fmt", "a\0b", ValueError),
        ("bit_rate", -2, ValueError),
        ("colorspace", 3, TypeError),
    ],
)
def test_configurations_are_checked(argument: str, value: Any, error: type[Exception]) -> None:
    good: dict[str, Any] = {"height": 48, "width": 64}
    with pytest.raises(error, match=f"`{argument}"):
        video_encode_config(**{**good, argument: value})


def test_frame_rates_in_any_form() -> None:
    forms: list[Any] = [(60, 2), Fraction(30), 30, np.int64(30)]
    made = {video_encode_config(height=1, width=1, frame_rate=form) for form in forms[:3]}
    assert made == {VideoEncodeConfig(1, 1, (30, 1))}


def test_frames_need_not_be_decoded_anew() -> None:
    """Decoded frames say how they were encoded before, which is no order to do so again."""
    first = decode_packets(demux_video(encode_video(pictures(24), encoder="mpeg4", gop_size=1)), filter_desc=None)
    file = io.BytesIO()
    muxer = Muxer(file, format="matroska")
    config = video_encode_config(height=48, width=64, frame_rate=RATE, pix_fmt="yuv420p", gop_size=24)
    write_all(muxer, [muxer.add_encode_stream(config, encoder="mpeg4")], [[first]])
    assert len(file.getvalue()) < len(encode_video(pictures(24), encoder="mpeg4", gop_size=1))
    assert len(first) == 24
