"""All ways to read a window of a video, to be held against the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from spdl.io import (
    Decoder,
    Demuxer,
    VideoReader,
    convert_frames,
    decode_packets,
    load_video,
    load_video_batch,
    sample_decode_video,
    to_numpy,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

_BATCH = 25
_MOST_FRAMES = 12
Window = tuple[float, float]


class WholeVideo:
    """A clip, the whole of it, and the ways to read a window."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pictures = to_numpy(load_video(path))
        self.reader = VideoReader(path)
        self.times = self.reader.timestamps
        self.demuxer = Demuxer(path)

    def expected(self, window: Window) -> list[int]:
        return [k for k, time in enumerate(self.times) if window[0] - 1e-7 <= time < window[1] - 1e-7]

    def window(self, rng: random.Random) -> Window:
        """Return a window that holds a frame: from the time of one, from just before, or from anywhere."""
        while True:
            first = rng.randrange(len(self.times))
            last = min(first + rng.choice([0, 0, 1, 2, 5, _MOST_FRAMES - 2]), len(self.times) - 1)
            after = self.times[last + 1] if last + 1 < len(self.times) else self.times[last] + 1
            before = self.times[first - 1] if first else self.times[0] - 1
            start = rng.choice([self.times[first], rng.uniform(before, self.times[first])])
            stop = rng.choice([after, rng.uniform(self.times[last], after)])
            # Floats stand for the nearest fraction with a denominator of a million.
            if min(abs(time - bound) for time in self.times for bound in (start, stop) if time != bound) > 1e-5:
                expected = self.expected((start, stop))
                if 0 < len(expected) <= _MOST_FRAMES and start < stop:
                    return start, stop

    def loaded(self, window: Window) -> Any:
        return to_numpy(load_video(self.path, timestamp=window))

    def read(self, window: Window) -> Any:
        return to_numpy(self.reader.read(*window))

    def decoded(self, window: Window) -> Any:
        packets = self.demuxer.demux_video(window)
        expected = [self.times[k] for k in self.expected(window)]
        assert packets.get_timestamps() == pytest.approx(expected, abs=1e-6)
        frames = decode_packets(packets)
        assert frames.get_timestamps() == pytest.approx(expected, abs=1e-6)
        return to_numpy(convert_frames(frames))

    def streamed(self, window: Window) -> Any:
        decoder = Decoder(self.demuxer.video_codec)
        frames = [*decoder.streaming_decode_packets(self.demuxer.demux_video(window)), *decoder.flush()]
        return np.concatenate([to_numpy(convert_frames(it)) for it in frames])

    def sampled(self, window: Window) -> Any:
        packets = self.demuxer.demux_video(window)
        return to_numpy(convert_frames(sample_decode_video(packets, range(len(packets)))))

    def ways(self) -> list[Callable[[Window], Any]]:
        return [self.loaded, self.read, self.decoded, self.streamed, self.sampled]

    def check_batch(self, windows: list[Window]) -> None:
        height, width = self.pictures.shape[1:3]
        batch = load_video_batch(
            [self.path] * len(windows), num_frames=_MOST_FRAMES, width=width, height=height, timestamps=windows
        )
        clips = to_numpy(batch.clips)
        for clip, length, window in zip(clips, batch.lengths, windows, strict=True):
            assert np.array_equal(clip[:length], self.read(window)), window

    def check_windows(self, rng: random.Random, count: int) -> None:
        """Read windows in one way each, and the first ones in all."""
        windows = [self.window(rng) for _ in range(count)]
        for number, window in enumerate(windows):
            for way in self.ways() if number < 3 else rng.sample(self.ways(), 1):
                assert np.array_equal(way(window), self.pictures[self.expected(window)]), (way.__name__, window)
        for first in range(0, count, _BATCH):
            self.check_batch(windows[first : first + _BATCH])

    def check_pieces(self, size: int, *, timed: bool = True) -> None:
        """Read the whole piece by piece, and look at the times if packets say them by themselves."""
        decoder = Decoder(self.demuxer.video_codec)
        frames: list[Any] = []
        packets: Any
        for packets in self.demuxer.streaming_demux(self.demuxer.video_stream_index, num_packets=size):
            frames += decoder.streaming_decode_packets(packets)
        frames += decoder.flush()
        times = [time for it in frames for time in it.get_timestamps()]
        assert not timed or times == pytest.approx(self.times, abs=1e-6)
        assert np.array_equal(np.concatenate([to_numpy(convert_frames(it)) for it in frames]), self.pictures)

    def check_reader(self) -> None:
        """Read the whole with a reader, and with one that has the index already."""
        assert self.times == sorted(self.times)
        assert np.array_equal(to_numpy(self.reader.read()), self.pictures)
        again = VideoReader(self.path, index=self.reader.index)
        assert again.timestamps == self.times
        assert np.array_equal(to_numpy(again[-1]), self.pictures[-1:])
        frames = decode_packets(self.demuxer.demux_video(), None)
        assert frames.get_timestamps() == pytest.approx(self.times, abs=1e-6)
