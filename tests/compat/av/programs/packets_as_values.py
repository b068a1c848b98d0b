"""Packets: copies, pickles, lengths and times."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from showing import attempt, digest, seconds, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def _values(packets: object) -> str:
    return digest(spdl.io.convert_frames(spdl.io.decode_packets(packets, filter_desc=None)))


def main(clips: Path, made: Path) -> None:
    kinds = {
        "video": lambda: spdl.io.demux_video(clips / "h264_lossless.mp4"),
        "audio": lambda: spdl.io.demux_audio(clips / "flac.flac"),
        "image": lambda: spdl.io.demux_image(clips / "rgb.png"),
    }
    for name, demux in kinds.items():
        whole = _values(demux())
        show(name, whole)
        packets = demux()
        attempt(f"{name}, clone", lambda packets=packets, whole=whole: _values(packets.clone()) == whole)
        data = pickle.dumps(packets)
        attempt(f"{name}, pickle", lambda data=data, whole=whole: _values(pickle.loads(data)) == whole)  # noqa: S301
        copy = pickle.loads(data)  # noqa: S301
        attempt(f"{name}, codec of the pickle", lambda copy=copy: copy.codec.name)
        view = memoryview(packets.__getstate__())
        show(f"{name}, its state", f"{view.nbytes > 0} {view.format}")
        show(f"{name}, its bytes", _values(type(packets).deserialize(bytes(view))) == whole)
        show(f"{name}, a view of them", _values(type(packets).deserialize_view(view)) == whole)
        attempt(f"{name}, still there", lambda packets=packets, whole=whole: _values(packets) == whole)
    attempt("length of audio packets", lambda: len(spdl.io.demux_audio(clips / "s16.wav")) > 0)
    attempt("length of image packets", lambda: len(spdl.io.demux_image(clips / "rgb.png")))

    packets = spdl.io.demux_video(clips / "h264.mp4")
    show("length", len(packets))
    show("times", seconds(packets.get_timestamps()[:8]))
    show("times in the file's order", seconds(packets.get_timestamps(raw=True)[:8]))
    part = spdl.io.demux_video(clips / "h264.mp4", timestamp=(0.6, 0.9))
    show("of a part, length", len(part))
    show("of a part, times", seconds(part.get_timestamps()))
    show("of a part, raw times hold these", set(part.get_timestamps()) <= set(part.get_timestamps(raw=True)))
    again = pickle.loads(pickle.dumps(part))  # noqa: S301
    show("of a part, pickled", f"{len(again)} {seconds(again.timestamp)}")
    show("irregular times", seconds(spdl.io.demux_video(clips / "irregular.mp4").get_timestamps()[:7]))
    show("a rate", spdl.io.demux_video(clips / "h264_ntsc.mp4").frame_rate)
    frames = spdl.io.decode_packets(spdl.io.demux_video(clips / "h264.mp4"))
    attempt("frames cannot be pickled", lambda: type(pickle.dumps(frames)).__name__)
    used = spdl.io.demux_video(clips / "h264.mp4")
    spdl.io.decode_packets(used)
    attempt("a used one, clone", used.clone)
    attempt("a used one, pickle", lambda: type(pickle.dumps(used)).__name__)
    attempt("noise is no pickle", lambda: spdl.io.VideoPackets.deserialize(b"noise"))
