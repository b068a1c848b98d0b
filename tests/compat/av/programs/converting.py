"""Frames to buffers: single ones, lists, and memory that is there already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from showing import attempt, digest, form, numbers, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    def video(name: str = "ffv1.mkv", desc: str | None = None) -> object:
        return spdl.io.decode_packets(spdl.io.demux_video(clips / name), filter_desc=desc)

    def audio(name: str = "flac.flac", desc: str | None = None) -> object:
        return spdl.io.decode_packets(spdl.io.demux_audio(clips / name), filter_desc=desc)

    def image(name: str = "rgb.png") -> object:
        return spdl.io.decode_packets(spdl.io.demux_image(clips / name))

    frames = video()
    show("video", digest(spdl.io.convert_frames(frames)))
    attempt("again", lambda: spdl.io.convert_frames(frames))
    show("videos", digest(spdl.io.convert_frames([video(), video()])))
    show("sounds", digest(spdl.io.convert_frames([audio(), audio(), audio()])))
    show("images", digest(spdl.io.convert_frames([image(), image()])))
    show("a tuple of images", form(spdl.io.convert_frames((image(), image()))))
    attempt("planes", lambda: form(spdl.io.convert_frames(video(desc="format=pix_fmts=yuv444p"))))
    attempt("gray", lambda: form(spdl.io.convert_frames(video(desc="format=pix_fmts=gray"))))
    attempt("alpha", lambda: form(spdl.io.convert_frames(video(desc="format=pix_fmts=rgba"))))
    attempt("16 bits", lambda: form(spdl.io.convert_frames(video(desc="format=pix_fmts=gray16le"))))
    attempt("three colors, 16 bits", lambda: form(spdl.io.convert_frames(video(desc="format=pix_fmts=rgb48le"))))
    attempt("nv12", lambda: form(spdl.io.convert_frames(video(desc="format=pix_fmts=nv12"))))
    for name in ("u8", "u8p", "s16", "s16p", "s32", "s32p", "flt", "fltp", "dbl", "dblp"):
        attempt(name, lambda name=name: form(spdl.io.convert_frames(audio(desc=f"aformat=sample_fmts={name}"))))

    storage = spdl.io.cpu_storage(50 * 96 * 64 * 3 // 2, pin_memory=False)
    show("into storage", digest(spdl.io.convert_frames(video(), storage)))
    small = spdl.io.cpu_storage(100, pin_memory=False)
    attempt("into too small a storage", lambda: spdl.io.convert_frames(video(), small))
    attempt("empty list", lambda: spdl.io.convert_frames([]))
    attempt("mixed sizes", lambda: spdl.io.convert_frames([video(), video("h264_cropped.mp4")]))
    attempt("mixed formats", lambda: spdl.io.convert_frames([video(), video(desc="format=pix_fmts=gray")]))
    attempt("mixed lengths", lambda: spdl.io.convert_frames([video(), video("ffv1_gray.mkv", "format=yuv420p")]))
    attempt("something else", lambda: spdl.io.convert_frames([5]))
    frames = video()
    part = spdl.io.convert_frames(frames[10:20])
    show("a part", numbers(part))
