"""A decoder that takes packets in pieces and gives frames as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from showing import array, attempt, digest, numbers, show

import spdl.io

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _video(path: Path, size: int, pieces: int, desc: str | None = None) -> Iterator[object]:
    with spdl.io.Demuxer(path) as demuxer:
        decoder = spdl.io.Decoder(demuxer.video_codec, filter_desc=desc)
        if size >= 0:
            decoder.set_buffer_size(size)
        for packets in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=pieces):
            yield from decoder.streaming_decode_packets(packets)
        yield from decoder.flush()


def main(clips: Path, made: Path) -> None:
    for name in ("h264.mp4", "h264_lossless.mp4", "ffv1.mkv", "mpeg4.mp4", "hevc.mp4", "vp9.webm"):
        parts = [array(spdl.io.convert_frames(it)) for it in _video(clips / name, -1, 7)]
        show(name, numbers(np.concatenate(parts)))
    parts = [array(spdl.io.convert_frames(it)) for it in _video(clips / "h264_lossless.mp4", -1, 7)]
    show("exact", digest(np.concatenate(parts)))
    for size in (1, 8, 20, 64, 0):
        lengths = [len(it) for it in _video(clips / "ffv1.mkv", size, 5)]
        show(f"buffer of {size}", lengths if size else sum(lengths))
    lengths = [len(it) for it in _video(clips / "h264.mp4", 16, 3)]
    show("buffer of 16, with B-frames", lengths)
    desc = spdl.io.get_video_filter_desc(scale_width=48, scale_height=32)
    parts = [array(spdl.io.convert_frames(it)) for it in _video(clips / "h264.mp4", 10, 7, desc)]
    show("resized", f"{sorted({it.shape for it in parts})} {numbers(np.concatenate(parts))}")

    with spdl.io.Demuxer(clips / "flac.flac") as demuxer:
        decoder = spdl.io.Decoder(demuxer.audio_codec, filter_desc=None)
        show("decoder of sound", type(decoder).__name__)
        index = demuxer.audio_stream_index
        parts = [
            array(spdl.io.convert_frames(frames))
            for packets in demuxer.streaming_demux(index, num_packets=3)
            for frames in decoder.streaming_decode_packets(packets)
        ]
        parts += [array(spdl.io.convert_frames(frames)) for frames in decoder.flush()]
    show("sound", digest(np.concatenate(parts)))

    for name in ("s16.wav", "flac.flac", "aac.m4a"):
        packets = spdl.io.demux_audio(clips / name)
        decoder = spdl.io.Decoder(packets.codec)
        lengths = [len(it) for it in decoder.streaming_decode_packets(packets)]
        show(f"{name} in one piece", f"{lengths} {[len(it) for it in decoder.flush()]}")
    packets = spdl.io.demux_video(clips / "ffv1.mkv")
    decoder = spdl.io.Decoder(packets.codec)
    show("pictures in one piece", [len(it) for it in decoder.streaming_decode_packets(packets)])

    with spdl.io.Demuxer(clips / "h264.mp4") as demuxer:
        decoder = spdl.io.Decoder(demuxer.video_codec)
        show("decoder of pictures", type(decoder).__name__)
        attempt("a negative buffer", lambda: decoder.set_buffer_size(-1))
        show("flushed before anything", sum(len(it) for it in decoder.flush()))
    attempt("of no codec", lambda: spdl.io.Decoder(5))
    with spdl.io.Demuxer(clips / "h264.mp4") as demuxer:
        codec = demuxer.video_codec
        attempt("bad filter", lambda: spdl.io.Decoder(codec, filter_desc="nonsense"))
