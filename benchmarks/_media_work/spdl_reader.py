"""This package and the released reference. Features of both run with the same code, each in its own environment."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import numpy as np
from clips import CLIPS, LENGTH, Task, indices

import spdl.io
from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKETS = 8  # At a time.


def load(path: str, size: int, interpolation: Any = "bilinear") -> int:
    """Load a whole clip, stretched to a size: ours with a reader, the reference, which has none, with filters."""
    if not hasattr(spdl.io, "VideoReader"):
        return filtered(path, size)
    reader = spdl.io.VideoReader(path, width=size, height=size, mode="stretch", interpolation=interpolation)
    return len(spdl.io.to_numpy(reader.read()))


def by_calls(path: str, size: int, interpolation: str) -> int:
    """Load a whole clip, stretched to a size, step by step."""
    desc = spdl.io.get_video_filter_desc(scale_width=size, scale_height=size, scale_mode=None, scale_algo=interpolation)
    frames = spdl.io.decode_packets(_named("demux_video")(path), filter_desc=desc)
    return len(spdl.io.to_numpy(spdl.io.convert_frames(frames)))


def filtered(path: str, size: int) -> int:
    """Load a whole clip, stretched to a size by FFmpeg's filters."""
    desc = spdl.io.get_video_filter_desc(scale_width=size, scale_height=size, scale_mode=None, scale_algo="bilinear")
    return len(spdl.io.to_numpy(_named("load_video")(path, filter_desc=desc)))


def decode(path: str) -> int:
    """Decode a whole clip, and drop each frame at once, so that the decoder uses its memory again."""
    frames = 0
    with _named("Demuxer")(path) as demuxer:
        decoder = spdl.io.Decoder(demuxer.video_codec, filter_desc=None)
        for packets in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=PACKETS):
            frames += sum(len(it) for it in decoder.streaming_decode_packets(packets))
        return frames + sum(len(it) for it in decoder.flush())


def opened(path: str) -> tuple[int, Callable[[list[int]], Any]]:
    """Open a clip with its index in memory: ours with a reader, the reference with the packets of the whole file."""
    if hasattr(spdl.io, "VideoReader"):
        reader = spdl.io.VideoReader(path)
        return len(reader), lambda chosen: spdl.io.to_numpy(reader.read_frames(chosen))
    packets = _named("demux_video")(path)

    def get(chosen: list[int]) -> Any:
        frames = spdl.io.sample_decode_video(packets.clone(), chosen)
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    return len(packets), get


def first(data: bytes) -> Any:
    """Load the first frame of a clip in memory: with a reader, or with the first packets."""
    if hasattr(spdl.io, "VideoReader"):
        return spdl.io.to_numpy(spdl.io.VideoReader(data).read_frames([0]))
    with _named("Demuxer")(data) as demuxer:
        decoder = spdl.io.Decoder(demuxer.video_codec)
        decoder.set_buffer_size(1)
        for packets in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=1):
            for frames in decoder.streaming_decode_packets(packets):
                return spdl.io.to_numpy(spdl.io.convert_frames(frames))
    raise SystemExit("no frame came")


def pipeline(tasks: Iterator[Task], workers: int) -> Iterator[int]:
    """Load clips in a pipeline."""
    call = _read if hasattr(spdl.io, "VideoReader") else _sample
    built = PipelineBuilder().add_source(tasks).pipe(call, concurrency=workers).add_sink().build(num_threads=workers)
    with built.auto_stop():
        for clips in built:
            yield _checked(clips)


LOADERS = {"pipeline": pipeline}


def sound(source: Any, rate: int) -> Any:
    """Load a sound as floats of one channel at a rate."""
    desc = spdl.io.get_audio_filter_desc(sample_rate=rate, num_channels=1)
    return spdl.io.to_numpy(_named("load_audio")(source, filter_desc=desc))


def _read(task: Task) -> Any:
    reader = spdl.io.VideoReader(task.path)
    pixels = spdl.io.to_numpy(reader.read_frames(indices(task.starts(len(reader)))))
    return pixels.reshape(CLIPS, LENGTH, *pixels.shape[1:])


def _sample(task: Task) -> Any:
    """Decode each frame once, as the reference refuses to give one twice, and put the clips together."""
    packets = _named("demux_video")(task.path)
    wanted = indices(task.starts(len(packets)))
    once = sorted(set(wanted))
    pixels = spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.sample_decode_video(packets, once)))
    places = [bisect_left(once, index) for index in wanted]
    return pixels[np.array(places)].reshape(CLIPS, LENGTH, *pixels.shape[1:])


def _checked(clips: Any) -> int:
    if clips.shape[:2] != (CLIPS, LENGTH) or clips.shape[-1] != 3:  # noqa: PLR2004 - the colours.
        raise SystemExit(f"clips of another shape came: {clips.shape}")
    return len(clips)


def _named(name: str) -> Any:
    """Return a function of `spdl.io`."""
    if not hasattr(spdl.io, name):
        raise SystemExit(f"this version of spdl has no spdl.io.{name}: it reads no audio and no video")
    return getattr(spdl.io, name)
