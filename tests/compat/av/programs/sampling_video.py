"""Chosen pictures of a video."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from showing import array, attempt, digest, numbers, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def _sampled(path: Path, indices: list[int], window: object = None, **options: object) -> str:
    frames = spdl.io.sample_decode_video(spdl.io.demux_video(path, timestamp=window), indices, **options)
    return f"{type(frames).__name__} {numbers(np.stack([array(spdl.io.convert_frames(it)) for it in frames]))}"


def main(clips: Path, made: Path) -> None:
    for name in ("h264.mp4", "h264_one_gop.mp4", "h264_open_gop.mp4", "h264.mkv", "hevc.mp4", "vp9.webm", "mpeg4.mp4"):
        attempt(name, lambda name=name: _sampled(clips / name, [0, 3, 11, 12, 13, 30, 49]))
    attempt("ffv1.mkv", lambda: _sampled(clips / "ffv1.mkv", list(range(0, 50, 7))))
    attempt("irregular.mp4", lambda: _sampled(clips / "irregular.mp4", [0, 1, 2, 20, 28]))
    attempt("one", lambda: _sampled(clips / "h264.mp4", [25]))
    attempt("all", lambda: _sampled(clips / "h264.mp4", list(range(50))))
    attempt("in a window", lambda: _sampled(clips / "h264.mp4", [0, 5], (0.6, 1.6)))
    attempt("resized", lambda: _sampled(clips / "h264.mp4", [5, 45], filter_desc="scale=48:32,format=pix_fmts=rgb24"))
    frames = spdl.io.sample_decode_video(spdl.io.demux_video(clips / "ffv1.mkv"), [4, 40], filter_desc=None)
    show("types", [type(it).__name__ for it in frames])
    show("exact", digest(spdl.io.convert_frames(frames)))
    for name, indices in {
        "none": [],
        "not in order": [5, 3],
        "twice": [3, 3],
        "negative": [-1],
        "too large": [50],
    }.items():
        attempt(name, lambda indices=indices: _sampled(clips / "h264.mp4", indices))
