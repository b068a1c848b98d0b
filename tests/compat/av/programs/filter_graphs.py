"""Filter graphs with one input and with two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from showing import array, attempt, digest, form, numbers, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def _decoded(path: Path) -> object:
    return spdl.io.decode_packets(spdl.io.demux_video(path), filter_desc=None)


def main(clips: Path, made: Path) -> None:
    video = spdl.io.demux_video(clips / "ffv1.mkv")
    codec = video.codec
    source = spdl.io.get_buffer_desc(codec)
    graph = spdl.io.FilterGraph(f"{source},format=pix_fmts=gray,buffersink")
    graph.add_frames(_decoded(clips / "ffv1.mkv"))
    frames = graph.get_frames()
    parts = [] if frames is None else [array(spdl.io.convert_frames(frames))]
    graph.flush()
    frames = graph.get_frames()
    parts += [] if frames is None else [array(spdl.io.convert_frames(frames))]
    show("one input", numbers(np.concatenate(parts)))
    show("nothing more", graph.get_frames())
    show("dump", isinstance(graph.dump(), str))

    one, two = spdl.io.get_buffer_desc(codec, label="in0"), spdl.io.get_buffer_desc(codec, label="in1")
    graph = spdl.io.FilterGraph(f"{one} [a]; {two} [b]; [a][b] hstack=inputs=2 [c]; [c] buffersink")
    graph.add_frames(_decoded(clips / "ffv1.mkv"), key="buffer@in0")
    graph.add_frames(_decoded(clips / "ffv1.mkv"), key="buffer@in1")
    graph.flush()
    whole = array(spdl.io.convert_frames(graph.get_frames()))
    show("side by side", digest(whole))
    show("both halves are the same", np.array_equal(whole[:, :, :64, :96], whole[:, :, :64, 96:]))

    graph = spdl.io.FilterGraph(f"{one} [a]; {two} [b]; [a][b] hstack=inputs=2 [c]; [c] buffersink")
    frames = _decoded(clips / "ffv1.mkv")
    attempt("an unknown input", lambda: graph.add_frames(frames, key="buffer@in9"))
    graph = spdl.io.FilterGraph(f"{source},split [a][b]; [a] buffersink@x; [b] vflip, buffersink@y")
    graph.add_frames(_decoded(clips / "ffv1.mkv"))
    graph.flush()
    plain = array(spdl.io.convert_frames(graph.get_frames(key="buffersink@x")))
    turned = array(spdl.io.convert_frames(graph.get_frames(key="buffersink@y")))
    show("two outputs", np.array_equal(plain[:, :, :64], turned[:, :, :64][:, :, ::-1]))

    sound = spdl.io.demux_audio(clips / "s16.wav")
    desc = spdl.io.get_abuffer_desc(sound.codec)
    graph = spdl.io.FilterGraph(f"{desc},aformat=sample_fmts=fltp,abuffersink")
    graph.add_frames(spdl.io.decode_packets(sound, filter_desc=None))
    graph.flush()
    show("sound", form(spdl.io.convert_frames(graph.get_frames())))
    for rate in (5, 25):
        sound = spdl.io.demux_audio(clips / "s16.wav")
        drawn = f"showwaves=size=64x48:rate={rate},format=rgb24"
        graph = spdl.io.FilterGraph(f"{spdl.io.get_abuffer_desc(sound.codec)},{drawn},buffersink")
        graph.add_frames(spdl.io.decode_packets(sound, filter_desc=None))
        graph.flush()
        frames = graph.get_frames()
        show(f"pictures of sound at {rate}", f"{type(frames).__name__} {form(spdl.io.convert_frames(frames))}")
    attempt("bad text", lambda: spdl.io.FilterGraph("nonsense"))
    attempt("an end without a beginning", lambda: spdl.io.FilterGraph("hflip"))
