"""Filters of packets: in one go and in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from showing import array, attempt, digest, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    packets = spdl.io.demux_video(clips / "h264_lossless.mp4")
    filtered = spdl.io.apply_bsf(packets.clone(), "h264_mp4toannexb")
    show("packets", f"{type(filtered).__name__} {len(filtered)}")
    show("pictures", digest(spdl.io.convert_frames(spdl.io.decode_packets(filtered, filter_desc=None))))
    packets = spdl.io.demux_video(clips / "h264_lossless.mp4", bsf="h264_mp4toannexb")
    show("while demuxing", digest(spdl.io.convert_frames(spdl.io.decode_packets(packets, filter_desc=None))))
    packets = spdl.io.demux_video(clips / "h264_lossless.mp4")
    attempt("unknown", lambda: spdl.io.apply_bsf(packets.clone(), "nonsense"))
    attempt("of another codec", lambda: spdl.io.apply_bsf(packets.clone(), "hevc_mp4toannexb"))

    with spdl.io.Demuxer(clips / "h264_lossless.mp4") as demuxer:
        bsf = spdl.io.BSF(demuxer.video_codec, "h264_mp4toannexb")
        decoder = spdl.io.Decoder(demuxer.video_codec, filter_desc=None)
        parts, count = [], 0
        for piece in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=9):
            changed = bsf.filter(piece)
            count += len(changed)
            parts += [array(spdl.io.convert_frames(it)) for it in decoder.streaming_decode_packets(changed)]
        rest = bsf.flush()
        show("rest", None if rest is None else len(rest))
        parts += [array(spdl.io.convert_frames(it)) for it in decoder.flush()]
        show("in pieces", f"{count} {digest(np.concatenate(parts))}")
    with spdl.io.Demuxer(clips / "h264_lossless.mp4") as demuxer:
        piece = next(iter(demuxer.streaming_demux(demuxer.video_stream_index, num_packets=9)))
        attempt("of a piece without codec", lambda: type(spdl.io.apply_bsf(piece, "h264_mp4toannexb")).__name__)
        codec = demuxer.video_codec
        attempt("unknown, as object", lambda: spdl.io.BSF(codec, "nonsense"))
