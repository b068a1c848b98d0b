"""What the tests of `Muxer` write into files."""

import io
from typing import Any

import numpy as np
import pytest

from spdl.io import (
    Muxer,
    audio_encode_config,
    create_reference_audio_frame,
    create_reference_video_frame,
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
