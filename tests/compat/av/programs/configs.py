"""Configurations of demuxers and decoders, and what is said of wrong ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from showing import attempt, digest, form, numbers, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    raw = spdl.io.load_video(clips / "ffv1.mkv", filter_desc=None)
    data = spdl.io.to_numpy(raw).tobytes()
    options = {"pixel_format": "yuv420p", "video_size": "96x64", "framerate": "25"}
    config = spdl.io.demux_config(format="rawvideo", format_options=options)
    show("raw pictures", digest(spdl.io.load_video(data, demux_config=config, filter_desc=None)))
    samples = spdl.io.to_numpy(spdl.io.load_audio(clips / "s16.wav", filter_desc=None)).tobytes()
    # The option for the number of channels has had several names.
    config = spdl.io.demux_config(format="s16le", format_options={"sample_rate": "48000"})
    attempt("raw samples", lambda: form(spdl.io.load_audio(samples, demux_config=config)))
    show(
        "a large buffer",
        numbers(spdl.io.load_video(clips / "h264.mp4", demux_config=spdl.io.demux_config(buffer_size=1 << 20))),
    )
    show(
        "a small buffer",
        numbers(spdl.io.load_video(clips / "h264.mp4", demux_config=spdl.io.demux_config(buffer_size=100))),
    )
    threads = spdl.io.decode_config(decoder_options={"threads": "2"})
    show("two threads", numbers(spdl.io.load_video(clips / "h264.mp4", decode_config=threads)))
    named = spdl.io.decode_config(decoder="ffv1")
    show("decoder by name", digest(spdl.io.load_video(clips / "ffv1.mkv", decode_config=named, filter_desc=None)))
    classes = spdl.io.DemuxConfig(buffer_size=4096), spdl.io.DecodeConfig(decoder="ffv1")
    show("classes", [type(it).__name__ for it in classes])

    def load(**configs: object) -> str:
        return form(spdl.io.load_video(clips / "ffv1.mkv", **configs))

    attempt("unknown container", lambda: load(demux_config=spdl.io.demux_config(format="nonsense")))
    attempt("wrong container", lambda: load(demux_config=spdl.io.demux_config(format="avi")))
    attempt("unknown option", lambda: load(demux_config=spdl.io.demux_config(format_options={"nonsense": "1"})))
    attempt("unknown decoder", lambda: load(decode_config=spdl.io.decode_config(decoder="nonsense")))
    attempt("wrong decoder", lambda: load(decode_config=spdl.io.decode_config(decoder="vorbis")))
    attempt(
        "unknown decoder option", lambda: load(decode_config=spdl.io.decode_config(decoder_options={"nonsense": "1"}))
    )
    attempt("wrong value", lambda: load(decode_config=spdl.io.decode_config(decoder_options={"threads": "many"})))
    attempt("negative buffer", lambda: load(demux_config=spdl.io.demux_config(buffer_size=-1)))
    attempt("removed keyword", lambda: load(nonsense=1))
