"""Frames: parts of them, copies and times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from showing import array, attempt, digest, numbers, seconds, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    frames = spdl.io.decode_packets(spdl.io.demux_video(clips / "ffv1.mkv"), filter_desc=None)
    show(
        "all", f"{len(frames)} {frames.num_frames} {frames.num_planes} {frames.width} {frames.height} {frames.pix_fmt}"
    )
    show("times", seconds(frames.get_timestamps()[:4]))
    show("raw times", frames.get_pts()[:4])
    show("unit of raw times", frames.time_base)
    one = frames[7]
    show("one", f"{type(one).__name__} {one.width} {one.height} {one.pix_fmt} {one.num_planes} {one.pts:.3f}")
    show("its picture", numbers(array(spdl.io.convert_frames(one))[None]))
    show("the last", numbers(array(spdl.io.convert_frames(frames[-1]))[None]))
    for name, index in {
        "a slice": slice(10, 15),
        "with step": slice(0, 50, 10),
        "to the end": slice(45, None),
        "from the back": slice(-3, None),
        "backwards": slice(5, 0, -1),
        "a list": [3, 1, 40],
        "a list with doubles": [3, 3],
        "negative ones in a list": [-1, 0],
    }.items():
        attempt(name, lambda i=index: f"{type(frames[i]).__name__} {numbers(spdl.io.convert_frames(frames[i]))}")
    attempt("nothing", lambda: len(frames[5:5]))
    attempt("too large", lambda: frames[50])
    attempt("too small", lambda: frames[-51])
    attempt("too large in a list", lambda: frames[[0, 50]])
    attempt("text", lambda: frames["a"])
    copy = frames.clone()
    whole = digest(spdl.io.convert_frames(frames))
    show("used up", whole)
    attempt("a part of what is used up", lambda: frames[0])
    show("the copy", digest(spdl.io.convert_frames(copy)) == whole)

    frames = spdl.io.decode_packets(spdl.io.demux_video(clips / "h264.mp4", timestamp=(0.5, 0.8)))
    show("of a window, times", seconds(frames.get_timestamps()))
    frames = spdl.io.decode_packets(spdl.io.demux_video(clips / "irregular.mp4"))
    show("irregular times", seconds(frames.get_timestamps()[:7]))
    sound = spdl.io.decode_packets(spdl.io.demux_audio(clips / "flac.flac"))
    show("sound", f"{sound.num_frames} {len(sound)} {sound.sample_rate} {sound.num_channels} {sound.sample_fmt}")
    copy = sound.clone()
    show("copied sound", digest(spdl.io.convert_frames(copy)) == digest(spdl.io.convert_frames(sound)))
    image = spdl.io.decode_packets(spdl.io.demux_image(clips / "rgb.png"))
    show("image", f"{image.width} {image.height} {image.pix_fmt} {type(image.metadata).__name__}")
    copy = image.clone()
    show("copied image", digest(spdl.io.convert_frames(copy)) == digest(spdl.io.convert_frames(image)))
