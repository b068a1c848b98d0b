"""Parts of audio files: half-open windows in seconds, cut at samples."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from showing import array, attempt, form, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    whole = array(spdl.io.load_audio(clips / "flac.flac"))
    windows = {
        "numbers": (0.5, 1.0),
        "integers": (1, 2),
        "strings": ("0.5", "1.0"),
        "decimals": (Decimal("0.5"), Decimal("1.0")),
        "fractions": (Fraction(1, 3), Fraction(2, 3)),
        "from the start": (0, 0.25),
        "past the end": (1.5, 10),
        "one sample": (0.5, 0.5 + 1 / 48000),
        "all": (0, 100),
    }
    for name, window in windows.items():
        part = array(spdl.io.load_audio(clips / "flac.flac", timestamp=window))
        start, end = (float(Fraction(it)) for it in window)
        expected = whole[:, round(start * 48000) : round(min(end, 2.0) * 48000)]
        show(name, f"{form(part)} exact {np.array_equal(part, expected)}")
    for name in ("s16.wav", "alac.m4a", "both_lossless.mkv"):
        part = array(spdl.io.load_audio(clips / name, (0.7, 1.1)))
        expected = array(spdl.io.load_audio(clips / name))[:, 33600:52800]
        show(name, f"{form(part)} exact {np.array_equal(part, expected)}")
    packets = spdl.io.demux_audio(clips / "flac.flac", timestamp=(0.5, 1.0))
    desc = spdl.io.get_filter_desc(packets, sample_rate=16000, num_channels=1)
    show("resampled", form(spdl.io.convert_frames(spdl.io.decode_packets(packets, desc))))
    calls = {
        "empty": (1.0, 1.0),
        "backwards": (1.0, 0.5),
        "after the end": (50.0, 60.0),
        "endless": (0.5, float("inf")),
        "not a number": (float("nan"), 1.0),
        "words": ("a", "b"),
    }
    for name, window in calls.items():
        attempt(name, lambda window=window: form(spdl.io.load_audio(clips / "flac.flac", timestamp=window)))
    attempt("three numbers", lambda: form(spdl.io.load_audio(clips / "flac.flac", timestamp=(0, 1, 2))))
