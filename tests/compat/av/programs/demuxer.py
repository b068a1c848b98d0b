"""A demuxer as a context manager: what is in a file, and several windows out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from showing import attempt, numbers, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    for name in ("both.mp4", "two_sounds.mkv", "s16.wav", "ffv1.mkv"):
        with spdl.io.Demuxer(clips / name) as demuxer:
            show(f"{name} has audio", demuxer.has_audio())
            attempt(f"{name} indices", lambda demuxer=demuxer: demuxer.video_stream_index)
            attempt(f"{name} audio index", lambda demuxer=demuxer: demuxer.audio_stream_index)
            attempt(f"{name} video codec", lambda demuxer=demuxer: demuxer.video_codec.name)
            attempt(f"{name} audio codec", lambda demuxer=demuxer: demuxer.audio_codec.name)
    with spdl.io.Demuxer(clips / "h264.mp4") as demuxer:
        for window in ((1.0, 1.2), (0.2, 0.4), None):
            packets = demuxer.demux_video(window)
            show(f"window {window}", numbers(spdl.io.convert_frames(spdl.io.decode_packets(packets))))
    with spdl.io.Demuxer(clips / "both_lossless.mkv") as demuxer:
        audio = demuxer.demux_audio(window=(0.5, 1.0))
        video = demuxer.demux_video(window=(0.5, 1.0))
        show("both", f"{len(video)} {audio.sample_rate}")
        attempt("an image", lambda: type(demuxer.demux_image()).__name__)
    with spdl.io.Demuxer(clips / "rgb.png") as demuxer:
        codec = demuxer.image_codec
        show("image codec", f"{codec.name} {codec.width} {codec.height} {codec.pix_fmt}")
        packets = demuxer.demux_image()
        show("image", f"{packets.width} {packets.height}")
    demuxer = spdl.io.Demuxer((clips / "h264.mp4").read_bytes(), name="clip")
    show("without with", len(demuxer.demux_video()))
    attempt("missing", lambda: spdl.io.Demuxer(clips / "missing"))
    attempt("number", lambda: spdl.io.Demuxer(5))
