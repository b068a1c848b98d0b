"""Packets to frames: packets are used up, a number of frames is enough, filters are given as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from showing import array, attempt, digest, form, numbers, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    packets = spdl.io.demux_video(clips / "h264.mp4")
    frames = spdl.io.decode_packets(packets)
    show("frames", f"{type(frames).__name__} {len(frames)} {frames.pix_fmt} {frames.width} {frames.height}")
    attempt("decoded again", lambda: spdl.io.decode_packets(packets))
    attempt("length when used up", lambda: len(packets))

    packets = spdl.io.demux_video(clips / "ffv1.mkv")
    copy = packets.clone()
    first = digest(spdl.io.convert_frames(spdl.io.decode_packets(packets, filter_desc=None)))
    show("without filter", first)
    show("the copy", digest(spdl.io.convert_frames(spdl.io.decode_packets(copy, None))) == first)
    for count in (1, 7, 50, 1000, -1):
        packets = spdl.io.demux_video(clips / "h264.mp4")
        frames = spdl.io.decode_packets(packets, num_frames=count)
        show(f"num_frames {count}", numbers(spdl.io.convert_frames(frames)))
    attempt("num_frames 0", lambda: len(spdl.io.decode_packets(spdl.io.demux_video(clips / "h264.mp4"), num_frames=0)))

    descs = {
        "gray": spdl.io.get_video_filter_desc(pix_fmt="gray"),
        "padded": spdl.io.get_video_filter_desc(scale_width=64, scale_height=64),
        "cropped": spdl.io.get_video_filter_desc(scale_width=64, scale_height=64, scale_mode="crop"),
        "stretched": spdl.io.get_video_filter_desc(scale_width=64, scale_height=64, scale_mode=None),
        "slower": spdl.io.get_video_filter_desc(frame_rate=(5, 1)),
        "part": spdl.io.get_video_filter_desc(crop_width=20, crop_height=10),
        "ten": spdl.io.get_video_filter_desc(num_frames=10),
        "sixty": spdl.io.get_video_filter_desc(num_frames=60),
        "planes": spdl.io.get_video_filter_desc(pix_fmt="yuv444p"),
        "turned": spdl.io.get_video_filter_desc(filter_desc="hflip"),
    }
    for name, desc in descs.items():
        frames = spdl.io.decode_packets(spdl.io.demux_video(clips / "h264.mp4"), filter_desc=desc)
        show(name, f"{len(frames)} {form(spdl.io.convert_frames(frames))}")

    packets = spdl.io.demux_audio(clips / "flac.flac")
    frames = spdl.io.decode_packets(packets, filter_desc=None)
    show(
        "sound", f"{type(frames).__name__} {frames.sample_rate} {frames.num_channels} {frames.num_frames} {len(frames)}"
    )
    descs = {
        "sound as integers": spdl.io.get_audio_filter_desc(sample_fmt="s16"),
        "sound in planes": spdl.io.get_audio_filter_desc(sample_fmt="s16p"),
        "sound at 16 kHz": spdl.io.get_audio_filter_desc(sample_rate=16000),
        "one channel": spdl.io.get_audio_filter_desc(num_channels=1),
        "a part": spdl.io.get_audio_filter_desc(timestamp=(0.5, 1.0)),
        "cut": spdl.io.get_audio_filter_desc(num_frames=1000),
        "filled up": spdl.io.get_audio_filter_desc(num_frames=100000),
    }
    for name, desc in descs.items():
        frames = spdl.io.decode_packets(spdl.io.demux_audio(clips / "flac.flac"), filter_desc=desc)
        show(name, form(spdl.io.convert_frames(frames)))
    planes = array(spdl.io.load_audio(clips / "flac.flac", filter_desc=descs["sound in planes"]))
    packed = array(spdl.io.load_audio(clips / "flac.flac", filter_desc=descs["sound as integers"]))
    show("planes are packed turned", np.array_equal(planes.T, packed))
    packets = spdl.io.demux_video(clips / "h264.mp4")
    attempt("a bad filter", lambda: spdl.io.decode_packets(packets, filter_desc="nonsense"))
    attempt("no packets", lambda: spdl.io.decode_packets(5))
