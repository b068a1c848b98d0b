"""Packets from one container to another, without decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from showing import attempt, digest, numbers, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def _video(source: Path, target: Path) -> int:
    with spdl.io.Demuxer(source) as demuxer:
        muxer = spdl.io.Muxer(str(target))
        muxer.add_remux_stream(demuxer.video_codec)
        with muxer.open():
            count = 0
            for packets in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=10):
                count += len(packets)
                muxer.write(0, packets)
    return count


def _both(source: Path, target: Path) -> None:
    with spdl.io.Demuxer(source) as demuxer:
        streams = [demuxer.video_stream_index, demuxer.audio_stream_index]
        muxer = spdl.io.Muxer(target)
        muxer.add_remux_stream(demuxer.video_codec)
        muxer.add_remux_stream(demuxer.audio_codec)
        with muxer.open():
            for piece in demuxer.streaming_demux(set(streams), duration=0.5):
                for index, packets in piece.items():
                    muxer.write(streams.index(index), packets)


def main(clips: Path, made: Path) -> None:
    attempt("packets", lambda: _video(clips / "h264_lossless.mp4", made / "one.mkv"))
    attempt("pictures", lambda: digest(spdl.io.load_video(made / "one.mkv", filter_desc=None)))
    attempt("pictures of the part", lambda: numbers(spdl.io.load_video(made / "one.mkv", (1.0, 1.5))))
    attempt("both", lambda: _both(clips / "both_lossless.mkv", made / "both.mkv"))
    attempt("both, pictures", lambda: digest(spdl.io.load_video(made / "both.mkv", filter_desc=None)))
    attempt("both, sound", lambda: digest(spdl.io.load_audio(made / "both.mkv", filter_desc=None)))

    packets = spdl.io.demux_video(clips / "h264_lossless.mp4")
    muxer = spdl.io.Muxer(str(made / "whole.mp4"))
    muxer.add_remux_stream(packets.codec)
    with muxer.open():
        muxer.write(0, packets)
    attempt("whole", lambda: digest(spdl.io.load_video(made / "whole.mp4", filter_desc=None)))

    packets = spdl.io.demux_audio(clips / "flac.flac")
    muxer = spdl.io.Muxer(str(made / "sound"), format="matroska")
    muxer.add_remux_stream(packets.codec)
    muxer.open()
    muxer.write(0, packets)
    muxer.flush()
    muxer.close()
    attempt("sound, container by name", lambda: digest(spdl.io.load_audio(made / "sound", filter_desc=None)))
    muxer = spdl.io.Muxer(str(made / "x.mkv"))
    attempt("no stream", muxer.open)
    attempt("a container that cannot hold it", lambda: _video(clips / "ffv1.mkv", made / "x.ogg"))
    show("done", "yes")
