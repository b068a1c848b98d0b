"""The text of a graph's inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from showing import attempt, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    for name in ("h264.mp4", "ffv1_odd.mkv", "ffv1_gray.mkv", "h264_ntsc.mp4", "h264_10bit.mp4"):
        codec = spdl.io.demux_video(clips / name).codec
        show(name, spdl.io.get_buffer_desc(codec))
        show(f"{name} labelled", spdl.io.get_buffer_desc(codec, label="in0"))
        show(f"{name} as rgb", spdl.io.get_buffer_desc(codec, pix_fmt="rgb24"))
    for name in ("s16.wav", "mono.wav", "surround.wav", "flac.flac", "mp3.mp3"):
        codec = spdl.io.demux_audio(clips / name).codec
        for words, options in {"": {}, " labelled": {"label": "in0"}, " as floats": {"sample_fmt": "fltp"}}.items():
            desc = spdl.io.get_abuffer_desc(codec, **options)
            # Versions of FFmpeg name the places of channels differently.
            show(f"{name}{words}", desc.partition(":channel_layout=")[0])
            attempt(
                f"{name}{words}, in a graph",
                lambda desc=desc: type(spdl.io.FilterGraph(f"{desc},abuffersink")).__name__,
            )
    attempt("of nothing", lambda: spdl.io.get_buffer_desc(5))
