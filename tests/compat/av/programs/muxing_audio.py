"""Arrays to audio files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from showing import array, attempt, digest, form, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def _encode(path: Path, values: object, sample_fmt: str, encoder: str, piece: int | None = None) -> int:
    """Return the encoder's frame size. `values` is (samples, channels)."""
    muxer = spdl.io.Muxer(str(path))
    config = spdl.io.audio_encode_config(num_channels=values.shape[1], sample_rate=48000, sample_fmt=sample_fmt)
    stream = muxer.add_encode_stream(config, encoder=encoder)
    with muxer.open():
        step = piece or stream.frame_size or 1024
        for start in range(0, len(values), step):
            part = np.ascontiguousarray(values[start : start + step])
            if sample_fmt.endswith("p"):
                part = np.ascontiguousarray(part.T)
            frames = spdl.io.create_reference_audio_frame(part, sample_fmt, 48000, start)
            packets = stream.encode(frames)
            if packets is not None:
                muxer.write(0, packets)
        packets = stream.flush()
        if packets is not None:
            muxer.write(0, packets)
    return stream.frame_size


def main(clips: Path, made: Path) -> None:
    values = array(spdl.io.load_audio(clips / "s16.wav", filter_desc=None))
    show("source", digest(values))
    for name, encoder in (
        ("pcm.wav", "pcm_s16le"),
        ("pcm.mkv", "pcm_s16le"),
        ("flac.flac", "flac"),
        ("flac.mkv", "flac"),
    ):
        attempt(f"{name}, frame size is known", lambda n=name, e=encoder: _encode(made / n, values, "s16", e) >= 0)
        attempt(
            f"{name}, read back",
            lambda n=name: digest(
                spdl.io.load_audio(made / n, filter_desc=spdl.io.get_audio_filter_desc(sample_fmt="s16"))
            ),
        )
    attempt("alac.m4a, planes", lambda: _encode(made / "alac.m4a", values, "s16p", "alac"))
    attempt(
        "alac.m4a, read back",
        lambda: digest(
            spdl.io.load_audio(made / "alac.m4a", filter_desc=spdl.io.get_audio_filter_desc(sample_fmt="s16"))
        ),
    )
    floats = (values / 32768).astype("float32")
    attempt("aac.m4a, frame size", lambda: _encode(made / "aac.m4a", floats, "fltp", "aac"))
    attempt("aac.m4a, read back", lambda: form(spdl.io.load_audio(made / "aac.m4a"))[:12])
    attempt("pieces that are not frames", lambda: _encode(made / "odd.m4a", floats, "fltp", "aac", 1000))
    attempt("an unknown encoder", lambda: _encode(made / "x.wav", values, "s16", "nonsense"))
    attempt("a type that the encoder does not take", lambda: _encode(made / "y.flac", floats, "flt", "flac"))
