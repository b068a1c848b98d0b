"""PyAV, on one thread for each clip. It is told so for colours and scaling, too, where it would use all cores."""

from __future__ import annotations

import io
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from clips import CLIPS, LENGTH, Task
from threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def load(path: str, size: int) -> int:
    """Load a whole clip, stretched to a size."""
    rgb = _converter(size)
    frames = [rgb(frame).to_ndarray() for frame in _frames(path)]
    return len(np.stack(frames))


def decode(path: str) -> int:
    """Decode a whole clip."""
    return sum(1 for _ in _frames(path))


def opened(path: str) -> tuple[int, Callable[[list[int]], Any]]:
    """Open a clip with the times of its packets in memory."""
    container = av.open(path)
    stream = _single_thread(container)
    packets = [it for it in container.demux(stream) if it.pts is not None]
    times = sorted(it.pts for it in packets)
    keys = sorted(it.pts for it in packets if it.is_keyframe)
    rgb = _converter()

    def get(chosen: list[int]) -> Any:
        """Decode on from frame to frame, and jump where a key frame lies between."""
        found: list[Any] = []
        decoder: Any = iter(())
        at = -1
        for index in chosen:
            wanted = times[index]
            key = keys[bisect_right(keys, wanted) - 1]
            if at < 0 or key > at:
                container.seek(wanted, stream=stream)
                decoder = container.decode(stream)
            for frame in decoder:
                at = frame.pts
                if at == wanted:
                    found.append(rgb(frame).to_ndarray())
                    break
        return np.stack(found)

    return len(times), get


def first(data: bytes) -> Any:
    """Load the first frame of a clip in memory."""
    with av.open(io.BytesIO(data)) as container:
        return _converter()(next(container.decode(_single_thread(container)))).to_ndarray()


def threads(tasks: Iterator[Task], workers: int) -> Iterator[int]:
    """Load clips in a pool of threads."""
    return (len(it) for it in in_threads(_clips, tasks, workers))


LOADERS = {"threads": threads}


def _clips(task: Task) -> Any:
    """Decode each file once, as its clips overlap."""
    with av.open(task.path) as container:
        stream = _single_thread(container)
        starts = task.starts(stream.frames)
        wanted = {start + offset for start in starts for offset in range(LENGTH)}
        found: dict[int, Any] = {}
        rgb = _converter()
        for index, frame in enumerate(container.decode(stream)):
            if index in wanted:
                found[index] = rgb(frame).to_ndarray()
            if len(found) == len(wanted):
                break
    clips = np.stack([found[start + offset] for start in starts for offset in range(LENGTH)])
    return clips.reshape(CLIPS, LENGTH, *clips.shape[1:])


def sound(source: Any, rate: int) -> Any:
    """Load a sound as floats of one channel at a rate."""
    resampler = av.AudioResampler("fltp", "mono", rate)
    with av.open(io.BytesIO(source) if isinstance(source, bytes) else source) as container:
        parts = [it for frame in container.decode(audio=0) for it in resampler.resample(frame)]
    parts += resampler.resample(None)
    return np.concatenate([it.to_ndarray() for it in parts], axis=1)


def _frames(path: str) -> Iterator[Any]:
    with av.open(path) as container:
        yield from container.decode(_single_thread(container))


def _converter(size: int | None = None) -> Callable[[Any], Any]:
    """Return what converts frames to RGB, and stretches them to a size. It prepares itself at the first frame."""
    whole = VideoReformatter()
    return lambda frame: whole.reformat(frame, size, size, "rgb24", interpolation=Interpolation.BILINEAR, threads=1)


def _single_thread(container: Any) -> Any:
    stream = container.streams.video[0]
    stream.thread_type = "NONE"
    stream.codec_context.thread_count = 1
    return stream
