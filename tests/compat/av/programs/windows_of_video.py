"""Parts of video files: half-open windows in seconds, which begin anywhere between key frames."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from showing import attempt, numbers, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    windows = {
        "numbers": (0.5, 1.0),
        "strings": ("0.5", "1.0"),
        "decimals": (Decimal("0.2"), Decimal("0.44")),
        "fractions": (Fraction(1, 25), Fraction(2, 25)),
        "between two pictures": (0.41, 0.59),
        "from the start": (0, 0.2),
        "past the end": (1.8, 10),
        "all": (0, 100),
    }
    for name, window in windows.items():
        show(name, numbers(spdl.io.load_video(clips / "h264.mp4", window)))
    for name in ("h264_one_gop.mp4", "h264_open_gop.mp4", "h264.mkv", "hevc.mp4", "vp9.webm", "mpeg4.mp4", "ffv1.mkv"):
        show(name, numbers(spdl.io.load_video(clips / name, timestamp=(0.7, 1.1))))
    show("irregular.mp4", numbers(spdl.io.load_video(clips / "irregular.mp4", timestamp=(0.2, 0.5))))
    packets = spdl.io.demux_video(clips / "h264.mp4", timestamp=(0.5, 1.0))
    show("packets in the window", len(packets))
    desc = spdl.io.get_filter_desc(packets, scale_width=48, scale_height=32)
    show("resized", numbers(spdl.io.convert_frames(spdl.io.decode_packets(packets, desc))))
    eight = spdl.io.get_video_filter_desc(num_frames=8)
    for start in (0.0, 0.48, 1.0, 1.84):
        window = (start, start + 0.32)
        attempt(
            f"eight from {start}",
            lambda w=window: numbers(spdl.io.load_video(clips / "h264.mp4", w, filter_desc=eight)),
        )
    five = spdl.io.get_video_filter_desc(frame_rate=(5, 1))
    show("five in a second", numbers(spdl.io.load_video(clips / "h264.mp4", (0.6, 1.4), filter_desc=five)))
    calls = {
        "empty": (1.0, 1.0),
        "backwards": (1.0, 0.5),
        "after the end": (50.0, 60.0),
        "no picture begins in it": (0.41, 0.43),
        "endless": (0.5, float("inf")),
    }
    for name, window in calls.items():
        attempt(name, lambda window=window: numbers(spdl.io.load_video(clips / "h264.mp4", timestamp=window)))
