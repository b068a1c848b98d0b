"""Muxer: sound, checked by decoding again, and by the ffmpeg command."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.muxing import encode_audio, need, psnr, tones, write_all

from spdl.io import (
    Muxer,
    audio_encode_config,
    create_reference_audio_frame,
    load_audio,
    to_numpy,
)

Array = np.ndarray[Any, Any]


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
