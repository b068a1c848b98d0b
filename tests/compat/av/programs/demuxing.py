"""Packets of one stream: what they know of it, and what is said of a stream that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from showing import attempt, seconds, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    packets = spdl.io.demux_video(clips / "both.mp4")
    show("video", f"{packets.width} {packets.height} {packets.pix_fmt} {packets.frame_rate} {packets.timestamp}")
    show("video packets", len(packets))
    show("video times", seconds(packets.get_timestamps()[:5]))
    codec = packets.codec
    show("video codec", f"{codec.name} {codec.width} {codec.height} {codec.pix_fmt} {codec.frame_rate}")
    show("video codec times", codec.time_base)
    show("type", type(packets).__name__)

    packets = spdl.io.demux_audio(clips / "both.mkv")
    show("audio", f"{packets.sample_rate} {packets.num_channels} {packets.timestamp}")
    codec = packets.codec
    show("audio codec", f"{codec.name} {codec.sample_rate} {codec.num_channels} {codec.sample_fmt}")
    show("audio codec channels are named", bool(codec.channel_layout))
    show("type of audio", type(packets).__name__)

    packets = spdl.io.demux_video(str(clips / "h264.mp4"), timestamp=(0.5, 1.0))
    show("window", f"{seconds(packets.timestamp)}, {len(packets)} of {len(packets.get_timestamps(raw=True))}")
    show("times in the window", seconds(packets.get_timestamps()))

    data = (clips / "h264.mp4").read_bytes()
    show("from bytes", len(spdl.io.demux_video(data)))
    packets = spdl.io.demux_video(clips / "h264.mp4", bsf="h264_mp4toannexb")
    show("through a filter of packets", len(packets))

    attempt("video of sound", lambda: spdl.io.demux_video(clips / "s16.wav"))
    attempt("audio of video", lambda: spdl.io.demux_audio(clips / "ffv1.mkv"))
    attempt("missing file", lambda: spdl.io.demux_video(clips / "missing"))
    attempt("noise", lambda: spdl.io.demux_video(b"noise" * 100, name="my noise"))
    attempt("unknown filter of packets", lambda: spdl.io.demux_video(clips / "h264.mp4", bsf="nonsense"))
    attempt("unknown keyword", lambda: spdl.io.demux_video(clips / "h264.mp4", nonsense=1))
