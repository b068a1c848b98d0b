"""Arrays to video files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from showing import array, attempt, digest, form, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def _encode(path: Path, values: object, pix_fmt: str, pictures: int, encoder: str | None, **options: object) -> None:
    height, width = (64, 96)
    muxer = spdl.io.Muxer(str(path))
    config = spdl.io.video_encode_config(
        height=height, width=width, frame_rate=(25, 1), pix_fmt=options.pop("to", pix_fmt), **options
    )
    stream = muxer.add_encode_stream(config, encoder=encoder)
    with muxer.open():
        for start in range(0, len(values), pictures):
            part = values[start : start + pictures]
            frames = spdl.io.create_reference_video_frame(part, pix_fmt, (25, 1), start)
            packets = stream.encode(frames)
            if packets is not None:
                muxer.write(0, packets)
        packets = stream.flush()
        if packets is not None:
            muxer.write(0, packets)


def main(clips: Path, made: Path) -> None:
    planes = array(spdl.io.load_video(clips / "ffv1_444.mkv", filter_desc=None))
    gray = array(spdl.io.load_video(clips / "ffv1_gray.mkv", filter_desc=None)).reshape(10, 64, 96)
    show("source", f"{digest(planes)}, {digest(gray)}")
    for name, values, pix_fmt in (("planes", planes, "yuv444p"), ("gray", gray, "gray8")):
        for pictures in (1, 4, 10):
            path = made / f"{name}{pictures}.mkv"
            kind = "gray" if pix_fmt == "gray8" else pix_fmt
            attempt(
                f"{name}, {pictures} at a time",
                lambda v=values, p=path, n=pictures, f=pix_fmt, k=kind: _encode(
                    p, np.ascontiguousarray(v), f, n, "ffv1", to=k
                ),
            )
            attempt(
                f"{name}, {pictures} at a time, read back",
                lambda p=path: digest(spdl.io.load_video(p, filter_desc=None)),
            )
    rgb = array(spdl.io.load_video(clips / "ffv1.mkv"))
    path = made / "mpeg4.mp4"
    yuv = np.ascontiguousarray(planes)
    attempt("a lossy codec", lambda: _encode(made / "mjpeg.avi", yuv, "yuv444p", 5, "mjpeg", to="yuvj444p"))
    attempt("a lossy codec, read back", lambda: form(spdl.io.load_video(made / "mjpeg.avi")))
    attempt("a codec that cannot take rgb", lambda: _encode(path, rgb, "rgb24", 5, "mpeg4"))
    attempt("an unknown encoder", lambda: _encode(made / "x.mkv", yuv, "yuv444p", 5, "nonsense"))
    attempt("an unknown container", lambda: _encode(made / "x.nonsense", yuv, "yuv444p", 5, "ffv1"))
    attempt("a folder that is not there", lambda: _encode(made / "none" / "x.mkv", yuv, "yuv444p", 5, "ffv1"))
