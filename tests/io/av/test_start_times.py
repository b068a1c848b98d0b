"""A file keeps the moment at which its streams begin, in the finest unit that its format has."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.io.av import oracle

from spdl.io import (
    AudioReader,
    Muxer,
    VideoReader,
    audio_encode_config,
    create_reference_audio_frame,
    create_reference_video_frame,
    video_encode_config,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("late", [0, 1, 5, 100])
@pytest.mark.parametrize(("rate", "sample_rate"), [((30000, 1001), 44100), ((25, 1), 48000), ((24000, 1001), 12345)])
@pytest.mark.parametrize("muxer_format", ["mp4", "mov", "nut"])
def test_the_first_times(muxer_format: str, rate: tuple[int, int], sample_rate: int, late: int, tmp_path: Path) -> None:
    codec, sample_fmt = ("alac", "s16p") if muxer_format == "mp4" else ("pcm_s16le", "s16")
    file = io.BytesIO()
    muxer = Muxer(file, format=muxer_format)
    pictures = muxer.add_encode_stream(
        video_encode_config(height=48, width=64, frame_rate=rate, pix_fmt="rgb24"), encoder="png"
    )
    sound = muxer.add_encode_stream(
        audio_encode_config(num_channels=1, sample_rate=sample_rate, sample_fmt=sample_fmt), encoder=codec
    )
    frames = np.zeros((5, 48, 64, 3), np.uint8)
    samples = np.zeros((1, 5000) if sample_fmt == "s16p" else (5000, 1), np.int16)
    with muxer.open():
        for stream, encoder, made in (
            (0, pictures, create_reference_video_frame(frames, "rgb24", rate, late)),
            (1, sound, create_reference_audio_frame(samples, sample_fmt, sample_rate, 7 * late)),
        ):
            packets = encoder.encode(made)  # type: ignore[arg-type]
            if packets is not None:
                muxer.write(stream, packets)
    path = tmp_path / "written"
    path.write_bytes(data := file.getvalue())
    times = (late * Fraction(rate[1], rate[0]), Fraction(7 * late, sample_rate))
    for stream, expected in enumerate(times):
        found = oracle.packets(path, str(stream))[0].pts
        assert found is not None
        assert abs(found - expected) < Fraction(1, 500_000)
    assert VideoReader(data).timestamps[0] == pytest.approx(float(times[0]), abs=2e-6)
    assert AudioReader(data).start_time == pytest.approx(float(times[1]), abs=2e-6)
