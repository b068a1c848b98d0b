"""Ctrl-C ends calls that work for long, within about a second, and leaves nothing half done."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pytest

from spdl.io import (
    AudioReader,
    Decoder,
    VideoReader,
    decode_packets,
    demux_audio,
    demux_video,
    load_audio_batch,
    load_image_batch,
    load_video_batch,
    to_numpy,
)
from tests.io.av.ffmpeg import need_encoder, run_ffmpeg
from tests.io.av.media import clip
from tests.io.images import make_jpeg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Of the processor's time, since a machine that others use, too, may take its own. Without a look at signals, each of
# these works for 20 s and more.
_LATEST_SECONDS = 3


class _Stopped(Exception):  # noqa: N818 - it is a KeyboardInterrupt that does not end the test run.
    """Raised by the handler of the signal."""


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _Stopped

    before = signal.signal(signal.SIGINT, stop)
    yield
    signal.signal(signal.SIGINT, before)


class _Pressed:
    """Sends the signal of Ctrl-C after a while, and tells when it did."""

    def __init__(self, seconds: float = 0.3) -> None:
        self.at = 0.0
        self._timer = threading.Timer(seconds, self._press)

    def _press(self) -> None:
        self.at = time.process_time()
        os.kill(os.getpid(), signal.SIGINT)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.join()


def _interrupted(work: Callable[[], object]) -> None:
    pressed, stopped_at = _Pressed(), 0.0

    def run() -> None:
        nonlocal stopped_at
        # The signal may come before the work has begun.
        with pressed:
            try:
                work()
            finally:
                stopped_at = time.process_time()

    with pytest.raises(_Stopped):
        run()
    assert pressed.at > 0
    assert stopped_at - pressed.at < _LATEST_SECONDS


@pytest.mark.parametrize("num_threads", [1, 3])
def test_batches_of_video(num_threads: int) -> None:
    sources = [clip("h264_320x240.mp4")] * 4000

    def work() -> object:
        return load_video_batch(sources, num_frames=1, width=8, height=8, sampling="spread", num_threads=num_threads)

    _interrupted(work)
    assert load_video_batch(sources[:2], num_frames=4, width=8, height=8).lengths == [4, 4]


@pytest.mark.parametrize("num_threads", [1, 3])
def test_batches_of_sound(num_threads: int) -> None:
    sources = [clip("aac.m4a")] * 8000
    _interrupted(lambda: load_audio_batch(sources, sample_rate=16000, num_frames=100_000, num_threads=num_threads))
    assert len(load_audio_batch(sources[:2], sample_rate=16000).lengths) == 2


@pytest.mark.parametrize("num_threads", [1, 3])
def test_batches_of_images(num_threads: int) -> None:
    data = make_jpeg(800, 600)
    _interrupted(lambda: load_image_batch([data] * 6000, width=8, height=8, num_threads=num_threads))
    assert load_image_batch([data], width=8, height=8).shape == (1, 8, 8, 3)


def test_the_first_of_a_batch_whose_size_is_not_known() -> None:
    _interrupted(lambda: load_image_batch([b"no image"] * 1_000_000, width=8, height=None, on_error="skip"))


def test_one_long_video_by_another_thread(tmp_path: Path) -> None:
    """The calling thread has nothing left to do when the signal comes."""
    path = tmp_path / "long.mkv"
    source = "testsrc2=size=32x16:rate=25:duration=1500"
    run_ffmpeg("-f", "lavfi", "-i", source, "-c:v", need_encoder("mpeg4"), "-g", 200_000, "-bf", 0, path)
    sources = [path, clip("h264_one_picture.mp4")]
    windows = [(1499, 1500), (0, 1)]
    _interrupted(
        lambda: [
            load_video_batch(order, num_frames=1, width=8, height=8, timestamps=times, num_threads=2)
            for order, times in ((sources, windows), (sources[::-1], windows[::-1])) * 100
        ]
    )


def test_one_long_call() -> None:
    packets = demux_video(clip("h264_320x240.mp4"))
    _interrupted(lambda: decode_packets(packets, "loop=loop=-1:size=50,scale=16:16"))
    # Filters that never end.
    sound = demux_audio(clip("s16.wav"))
    _interrupted(lambda: decode_packets(sound, "apad,asetnsamples=65536,aresample=192000:filter_size=512"))


def test_a_reader_goes_on_afterwards() -> None:
    reader = VideoReader(clip("h264_320x240.mp4"))
    expected = to_numpy(reader.read()).copy()
    wanted = [frame for _ in range(2000) for frame in (49, 0)]

    def work() -> None:
        for frame in wanted * 100:
            reader.read_frames([frame])

    _interrupted(work)
    assert np.array_equal(to_numpy(reader.read()), expected)


def test_a_decoder_goes_on_afterwards() -> None:
    """No packet is lost: the frames are all there, whenever the signal came."""
    packets = demux_video(clip("h264_320x240.mp4"))
    expected = len(decode_packets(packets.clone()))
    decoder = Decoder(packets.codec, filter_desc="scale=640:480:flags=lanczos,format=rgb24")
    rounds = 5
    for _ in range(rounds):
        decoder.streaming_decode_packets(packets.clone())
    counts: list[int] = []

    def flush() -> None:
        # The handler does not run between a result and its place in the list.
        counts.extend(map(len, decoder.flush()))

    with pytest.raises(_Stopped), _Pressed(0.1):
        flush()
    flush()
    assert sum(counts) == rounds * expected


def test_other_threads_are_not_concerned() -> None:
    sources = [clip("h264_320x240.mp4")] * 60
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(load_video_batch(sources, num_frames=1, width=8, height=8, sampling="spread"))
    )
    thread.start()
    with pytest.raises(_Stopped), _Pressed(0.1):
        time.sleep(10)
    thread.join()
    assert found[0].lengths == [1] * 60


def test_a_handler_that_returns_ends_nothing() -> None:
    calls: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: calls.append(number))
    try:
        with _Pressed(0.1):
            batch = load_video_batch(
                [clip("h264_320x240.mp4")] * 150, num_frames=1, width=8, height=8, sampling="spread", num_threads=2
            )
    finally:
        signal.signal(signal.SIGINT, before)
    assert calls == [signal.SIGINT]
    assert batch.lengths == [1] * 150


def test_a_handler_that_uses_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = AudioReader(clip("aac.m4a"), sample_rate=16000)
    errors: list[str] = []

    def handle(*_: object) -> None:
        try:
            reader.read()
        except RuntimeError as error:
            errors.append(str(error))

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        for _ in range(30):
            reader.read()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert all("by a signal handler" in error for error in errors)


if sys.platform == "win32":
    pytest.skip("there are no such signals", allow_module_level=True)
