"""The text of filter graphs."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from showing import attempt

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path

_AUDIO = {
    "nothing": {"sample_fmt": None},
    "default": {},
    "rate": {"sample_rate": 16000},
    "channels": {"num_channels": 1},
    "type": {"sample_fmt": "s16"},
    "window": {"timestamp": (0.5, 1.5)},
    "open window": {"timestamp": (0.5, float("inf"))},
    "length": {"num_frames": 1000},
    "own": {"filter_desc": "volume=2"},
    "all": {
        "sample_rate": 16000,
        "num_channels": 2,
        "sample_fmt": "flt",
        "timestamp": (1, 2),
        "num_frames": 100,
        "filter_desc": "volume=2",
    },
}
_VIDEO = {
    "nothing": {"pix_fmt": None},
    "default": {},
    "size": {"scale_width": 10, "scale_height": 20},
    "crop mode": {"scale_width": 10, "scale_height": 20, "scale_mode": "crop"},
    "no mode": {"scale_width": 10, "scale_height": 20, "scale_mode": None},
    "width": {"scale_width": 10},
    "height": {"scale_height": 20},
    "algorithm": {"scale_width": 10, "scale_height": 20, "scale_algo": "bilinear"},
    "crop": {"crop_width": 5, "crop_height": 6},
    "rate": {"frame_rate": (30, 1)},
    "window": {"timestamp": (0.5, 1.5)},
    "length": {"num_frames": 9},
    "length with color": {"num_frames": 9, "pad_mode": "black"},
    "own": {"filter_desc": "hflip"},
    "format": {"pix_fmt": "gray"},
}


def main(clips: Path, made: Path) -> None:
    for name, options in _AUDIO.items():
        attempt(f"audio, {name}", lambda options=options: spdl.io.get_audio_filter_desc(**options))
    for name, options in _VIDEO.items():
        attempt(f"video, {name}", lambda options=options: spdl.io.get_video_filter_desc(**options))
    attempt("video, bad mode", lambda: spdl.io.get_video_filter_desc(scale_width=1, scale_height=1, scale_mode="x"))
    packets = spdl.io.demux_audio(clips / "flac.flac", timestamp=(Fraction(1, 2), 1))
    attempt("of audio packets", lambda: spdl.io.get_filter_desc(packets))
    attempt("of audio packets, at 16 kHz", lambda: spdl.io.get_filter_desc(packets, sample_rate=16000))
    packets_without = spdl.io.demux_audio(clips / "flac.flac")
    attempt("of audio packets without window", lambda: spdl.io.get_filter_desc(packets_without))
    pictures = spdl.io.demux_video(clips / "h264.mp4", timestamp=(0.5, 1))
    attempt("of video packets", lambda: spdl.io.get_filter_desc(pictures))
    attempt("of image packets", lambda: spdl.io.get_filter_desc(spdl.io.demux_image(clips / "rgb.png")))
    attempt("of something else", lambda: spdl.io.get_filter_desc(5))
