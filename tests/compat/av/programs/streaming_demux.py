"""Packets of several streams, some at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from showing import attempt, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    path = clips / "both_lossless.mkv"
    with spdl.io.Demuxer(path) as demuxer:
        index = demuxer.video_stream_index
        pieces = list(demuxer.streaming_demux(index, num_packets=10))
        show("ten at a time", [len(it) for it in pieces])
        show("types", {type(it).__name__ for it in pieces})
    with spdl.io.Demuxer(path) as demuxer:
        show("the first stream", [len(it) for it in demuxer.streaming_demux(num_packets=20)])
    with spdl.io.Demuxer(path) as demuxer:
        pieces = list(demuxer.streaming_demux(demuxer.video_stream_index, duration=0.5))
        show("half a second at a time", sum(len(it) for it in pieces))
        show("half a second at a time, pieces", len(pieces))
    with spdl.io.Demuxer(path) as demuxer:
        both = {demuxer.video_stream_index, demuxer.audio_stream_index}
        pieces = list(demuxer.streaming_demux(both, duration=0.5))
        show("of both, types", sorted({type(it).__name__ for piece in pieces for it in piece.values()}))
        show("of both, pictures", sum(len(piece.get(index, ())) for piece in pieces))
    with spdl.io.Demuxer(path) as demuxer:
        pieces = list(demuxer.streaming_demux([index], num_packets=30))
        show("of a list", [{key: len(it) for key, it in piece.items()} for piece in pieces])
    with spdl.io.Demuxer(path) as demuxer:
        decoder = spdl.io.Decoder(demuxer.video_codec, filter_desc=None)
        count = 0
        for packets in demuxer.streaming_demux(index, num_packets=7):
            count += sum(len(frames) for frames in decoder.streaming_decode_packets(packets))
        count += sum(len(frames) for frames in decoder.flush())
        show("decoded", count)
    with spdl.io.Demuxer(path) as demuxer:
        attempt("neither", lambda: list(demuxer.streaming_demux(index)))
        attempt("both", lambda: list(demuxer.streaming_demux(index, duration=1, num_packets=1)))
        attempt("no such stream", lambda: list(demuxer.streaming_demux(9, num_packets=1)))
