"""A GPU whose calls fail: each of them in turn, and any of them in random programs on several threads.

Whatever fails, the error names the call, the frames that come are the right ones, the next call works, and nothing is
left behind: `fake_gpu` counts parsers, mapped frames, events and memory, and what is used after its end.
"""

import gc
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.gpu_libraries import KEPT, FakeGpu
from tests.io.av.gpu_clips import show

from spdl.io import (
    Demuxer,
    VideoReader,
    cuda_config,
    decode_packets_nvdec,
    demux_video,
    nvdec_decoder,
    streaming_load_video_nvdec,
    to_numpy,
    transfer_buffer_cpu,
)

Clip = Callable[[str], Path]

ILLEGAL_ADDRESS = 700
# Without a context nothing can be given back, so that entering one (cuCtxPushCurrent) is not among them.
CALLS = (
    "cuvidGetDecoderCaps",
    "cuvidCreateDecoder",
    "cuvidReconfigureDecoder",
    "cuvidCreateVideoParser",
    "cuvidParseVideoData",
    "cuvidDecodePicture",
    "cuvidMapVideoFrame64",
    "cuvidUnmapVideoFrame64",
    "cuvidDestroyDecoder",
    "cuvidDestroyVideoParser",
    "cuMemcpy2DAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuLaunchKernel",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventDestroy_v2",
    "cuStreamSynchronize",
    "cuCtxPopCurrent_v2",
)
QUIET = {"cuvidDestroyDecoder", "cuvidDestroyVideoParser", "cuMemFreeAsync", "cuEventDestroy_v2", "cuCtxPopCurrent_v2"}
"""What only gives something back: nobody is told if it fails."""
INDICES = [40, 3, 4, 5, 3, 20]


def pixels(buffer: Any) -> Any:
    return to_numpy(transfer_buffer_cpu(buffer))


def name_in_errors(call: str) -> str:
    return call.removesuffix("_v2")


def check_nothing_left(gpu: FakeGpu) -> None:
    gc.collect()
    assert gpu.video_objects("parsers") == 0
    assert gpu.video_objects("mapped") == 0
    assert gpu.video_objects("decoders") <= KEPT
    assert (gpu.driver.events, gpu.driver.device_blocks, gpu.driver.mistakes) == (0, 0, 0)


@pytest.mark.parametrize("call", CALLS)
def test_each_call_of_a_reader_fails_in_turn(fake_gpu: FakeGpu, clip: Clip, call: str) -> None:
    path = clip("h264.mp4")
    show(fake_gpu, path)
    expected = pixels(VideoReader(path, device="cuda", width=40, height=30).read_frames(INDICES))
    failures = 0
    for after in range(60):
        fake_gpu.driver.reset()
        fake_gpu.driver.fail(call, ILLEGAL_ADDRESS, after)
        reader = None
        try:
            reader = VideoReader(path, device="cuda", width=40, height=30)
            there = reader.read_frames(INDICES)
            made = fake_gpu.driver.calls(call)
            np.testing.assert_array_equal(pixels(there), expected)
        except RuntimeError as error:
            failures += 1
            assert name_in_errors(call) in str(error)  # noqa: PT017 - some do not fail.
            assert "ILLEGAL_ADDRESS" in str(error)  # noqa: PT017
            made = after + 1
        fake_gpu.driver.fail(call, ILLEGAL_ADDRESS, 1 << 30)
        if reader is not None:
            np.testing.assert_array_equal(pixels(reader.read_frames(INDICES[::-1])), expected[::-1])
        there = reader = None
        check_nothing_left(fake_gpu)
        if made <= after:
            break
    # Streams are waited for only while something else fails; decoders are made below.
    assert call in QUIET or failures or call in {"cuStreamSynchronize", "cuvidCreateDecoder"}


@pytest.mark.parametrize("call", CALLS)
def test_each_call_of_a_stream_fails_in_turn(fake_gpu: FakeGpu, clip: Clip, call: str) -> None:
    path, config = clip("h264.mp4"), cuda_config(0, 7)
    expected = show(fake_gpu, path).surfaces
    for after in (0, 1, 2, 3, 5, 9, 20, 47):
        fake_gpu.driver.reset()
        fake_gpu.driver.fail(call, ILLEGAL_ADDRESS, after)
        pieces: list[Any] = []
        try:
            pieces.extend(map(pixels, streaming_load_video_nvdec(path, config, num_frames=7, use_cache=False)))
            assert sum(map(len, pieces)) == len(expected)
        except RuntimeError as error:
            assert name_in_errors(call) in str(error)  # noqa: PT017
        fake_gpu.driver.fail(call, ILLEGAL_ADDRESS, 1 << 30)
        if pieces:
            got = np.concatenate(pieces)
            np.testing.assert_array_equal(got, expected[: len(got)])
        check_nothing_left(fake_gpu)


# If a stream cannot even be waited for while something else fails, what it may still use is never given back.
RECOVERABLE = tuple(call for call in CALLS if call != "cuStreamSynchronize")


class Program:
    """Random calls on readers and decoders of a few clips, with failures in between."""

    def __init__(self, gpu: FakeGpu, path: Path, whole: Any, surfaces: Any, seed: int) -> None:
        self.gpu, self.path, self.whole, self.surfaces = gpu, path, whole, surfaces
        self.chosen = random.Random(seed)
        self.stream = 10 + seed
        self.readers: list[VideoReader] = []
        self.failed = self.read = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            step = self.chosen.choice([self.open, self.use, self.use, self.use, self.drop, self.whole_video, self.part])
            if self.chosen.random() < 0.3:
                self.gpu.driver.fail(self.chosen.choice(RECOVERABLE), ILLEGAL_ADDRESS, self.chosen.randrange(12))
            try:
                step()
            except RuntimeError as error:
                assert "ILLEGAL_ADDRESS" in str(error)  # noqa: PT017
                self.failed += 1
        self.readers.clear()

    def open(self) -> None:
        self.readers.append(VideoReader(self.path, device=cuda_config(0, self.stream)))
        del self.readers[:-3]

    def use(self) -> None:
        if not self.readers:
            self.open()
        count = self.chosen.choice([1, 2, 6, 20])
        indices = [self.chosen.randrange(len(self.whole)) for _ in range(count)]
        got = pixels(self.chosen.choice(self.readers).read_frames(indices))
        np.testing.assert_array_equal(got, self.whole[indices])
        self.read += 1

    def drop(self) -> None:
        if self.readers:
            del self.readers[self.chosen.randrange(len(self.readers))]

    def whole_video(self) -> None:
        config = cuda_config(0, self.stream)
        got = pixels(decode_packets_nvdec(demux_video(self.path), device_config=config, pix_fmt=None))
        np.testing.assert_array_equal(got, self.surfaces)

    def part(self) -> None:
        """Decode the beginning of a video and leave it there."""
        packets: Any
        with Demuxer(self.path) as demuxer:
            decoder = nvdec_decoder(cuda_config(0, self.stream), demuxer.video_codec)
            decoder.init_buffer(3)
            for number, packets in enumerate(demuxer.streaming_demux(demuxer.video_stream_index, num_packets=4)):
                if number == self.chosen.randrange(8):
                    break
                for piece in decoder.streaming_decode_packets(packets):
                    assert len(piece) == 3


@pytest.mark.parametrize("name", ["h264_open_gop.mp4", "vp9.webm"])
@pytest.mark.parametrize("seed", range(4))
def test_random_programs(fake_gpu: FakeGpu, clip: Clip, name: str, seed: int) -> None:
    path = clip(name)
    shown = show(fake_gpu, path)
    whole = pixels(VideoReader(path, device="cuda").read_frames(range(len(shown.surfaces))))
    program = Program(fake_gpu, path, whole, shown.surfaces, seed)
    program.run(60)
    fake_gpu.driver.reset()
    check_nothing_left(fake_gpu)
    assert program.failed
    assert program.read


@pytest.mark.parametrize("latency", [0.0, 0.0002])
def test_random_programs_on_threads(fake_gpu: FakeGpu, clip: Clip, latency: float) -> None:
    path = clip("h264_open_gop.mp4")
    shown = show(fake_gpu, path)
    whole = pixels(VideoReader(path, device="cuda").read_frames(range(len(shown.surfaces))))
    fake_gpu.driver.set_latency(latency)
    programs = [Program(fake_gpu, path, whole, shown.surfaces, seed) for seed in range(4)]
    barrier = threading.Barrier(len(programs))

    def run(program: Program) -> None:
        barrier.wait()
        program.run(25)

    with ThreadPoolExecutor(len(programs)) as pool:
        list(pool.map(run, programs))
    fake_gpu.driver.reset()
    check_nothing_left(fake_gpu)
    assert any(program.failed for program in programs)
    assert all(program.read for program in programs)
