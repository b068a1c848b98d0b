"""Whole video files, with the default filter and without any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from showing import array, attempt, digest, form, numbers, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path

_CODECS = ("h264.mp4", "h264.mkv", "h264.ts", "hevc.mp4", "vp8.webm", "vp9.webm", "mpeg4.mp4", "mpeg2.ts", "mjpeg.avi")


def main(clips: Path, made: Path) -> None:
    for name in _CODECS:
        buffer = spdl.io.load_video(str(clips / name))
        show(name, form(buffer))
        show(f"{name} pictures", numbers(buffer))
    for name in ("h264_lossless.mp4", "h264_lossless.mkv", "hevc_lossless.mkv", "vp9_lossless.webm", "ffv1.mkv"):
        show(f"{name} without filter", digest(spdl.io.load_video(clips / name, filter_desc=None)))
    for name in ("ffv1_gray.mkv", "ffv1_444.mkv"):
        show(f"{name} without filter", digest(spdl.io.load_video(clips / name, filter_desc=None)))
        show(f"{name} by default", form(spdl.io.load_video(clips / name)))
    for name in ("ffv1_odd.mkv", "ffv1_420_10bit.mkv", "ffv1_422.mkv", "ffv1_alpha.mkv"):
        show(f"{name} by default", form(spdl.io.load_video(clips / name)))
        attempt(f"{name} without filter", lambda name=name: form(spdl.io.load_video(clips / name, filter_desc=None)))
    show("one picture", form(spdl.io.load_video(clips / "h264_one_picture.mp4")))
    show("elementary stream", numbers(spdl.io.load_video(clips / "elementary.h264")))
    show("irregular times", numbers(spdl.io.load_video(clips / "irregular.mp4")))
    show("a filter", form(spdl.io.load_video(clips / "h264.mp4", filter_desc="scale=w=32:h=16,format=pix_fmts=gray")))
    data = (clips / "ffv1.mkv").read_bytes()
    whole = digest(spdl.io.load_video(data, filter_desc=None))
    for kind, source in {"bytearray": bytearray(data), "array": np.frombuffer(data, np.uint8)}.items():
        show(f"{kind} gives the same", digest(spdl.io.load_video(source, filter_desc=None)) == whole)
    writable = array(spdl.io.load_video(clips / "ffv1.mkv"))
    show("the array", f"{writable.flags.c_contiguous} {writable.strides == (96 * 64 * 3, 96 * 3, 3, 1)}")
    attempt("of a clip with sound alone", lambda: spdl.io.load_video(clips / "s16.wav"))
    attempt("of a missing file", lambda: spdl.io.load_video(clips / "missing.mp4"))
    attempt("of a file without its index", lambda: spdl.io.load_video(clips / "cut.mp4"))
    attempt("with a filter that there is not", lambda: spdl.io.load_video(clips / "ffv1.mkv", filter_desc="nonsense"))
