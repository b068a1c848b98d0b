"""Videos that a GPU decodes, on one made of main memory: order, windows, crops, reuse, errors, and what is left behind.

The frames are those of the CPU path, so what is tested is which frame comes out where, and that each is whole.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from tests.gpu_libraries import KEPT, FakeGpu
from tests.io.av.gpu_clips import show as show_clip
from tests.io.device.yuv_colors import yuv_to_rgb

from spdl.io import (
    CUDABuffer,
    Demuxer,
    NvDecDecoder,
    cuda_config,
    decode_packets,
    decode_packets_nvdec,
    demux_video,
    load_video,
    nv12_to_rgb,
    nvdec_decoder,
    streaming_load_video_nvdec,
    to_numpy,
    transfer_buffer_cpu,
)
from spdl.io.utils import built_with_nvcodec

Clip = Callable[[str], Path]

H264 = ("h264.mp4", "h264.mkv", "h264.ts", "h264_open_gop.mp4", "h264_no_b_frames.mp4")
OTHERS = ("hevc.mp4", "vp8.webm", "vp9.webm", "av1.mp4", "mpeg4.mp4", "mpeg2.ts")


def pixels(buffer: CUDABuffer) -> Any:
    return to_numpy(transfer_buffer_cpu(buffer))


def show(gpu: FakeGpu, path: Path, **settings: int) -> Any:
    """Let the GPU decode what the CPU decodes, and return that: (N, H * 3 / 2, W) in NV12."""
    frames = to_numpy(load_video(path, filter_desc="format=pix_fmts=nv12"))
    frames = frames.reshape(len(frames), -1, frames.shape[-1])
    packets = demux_video(path)
    numerator, denominator = packets.codec.time_base
    times = [round(time * denominator / numerator) for time in packets.get_timestamps()]
    assert len(times) == len(frames)
    gpu.set_video(frames, times, None, **settings)
    return frames


@pytest.mark.parametrize("name", [*H264, *OTHERS])
def test_all_frames_come_in_the_order_in_which_they_are_shown(fake_gpu: FakeGpu, clip: Clip, name: str) -> None:
    path = clip(name)
    expected = show(fake_gpu, path)
    assert built_with_nvcodec() is True
    there = decode_packets_nvdec(demux_video(path), device_config=cuda_config(0, 7), pix_fmt=None)
    assert there.shape == expected.shape
    np.testing.assert_array_equal(pixels(there), expected)


@pytest.mark.parametrize("name", ["h264.mp4", "h264_open_gop.mp4", "vp9.webm"])
def test_a_window_has_the_frames_of_the_cpu(fake_gpu: FakeGpu, clip: Clip, name: str) -> None:
    path = clip(name)
    show(fake_gpu, path)
    for window in ((0.5, 1.3), (0.0, 0.04), (0.9, 100.0)):
        there = decode_packets_nvdec(demux_video(path, timestamp=window), device_config=cuda_config(0), pix_fmt=None)
        here = to_numpy(load_video(path, timestamp=window, filter_desc="format=pix_fmts=nv12"))
        np.testing.assert_array_equal(pixels(there), here.reshape(there.shape))
    with pytest.raises(RuntimeError, match="no frame that is shown within their window"):
        decode_packets_nvdec(demux_video(path, timestamp=(500.0, 600.0)), device_config=cuda_config(0))


@pytest.mark.parametrize("num_frames", [1, 7, 25, 1000])
@pytest.mark.parametrize("name", ["h264.mp4", "vp9.webm"])
def test_pieces_have_all_frames_once(fake_gpu: FakeGpu, clip: Clip, name: str, num_frames: int) -> None:
    path = clip(name)
    expected = show(fake_gpu, path)
    pieces = list(streaming_load_video_nvdec(path, cuda_config(0), num_frames=num_frames))
    assert {len(piece) for piece in pieces[:-1]} <= {num_frames}
    assert 1 <= len(pieces[-1]) <= num_frames
    np.testing.assert_array_equal(np.concatenate([pixels(piece) for piece in pieces]), expected)


def test_work_takes_its_time_and_is_done_when_frames_are_returned(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    expected = show(fake_gpu, path)
    fake_gpu.driver.set_latency(0.0005)
    pieces = streaming_load_video_nvdec(path, cuda_config(0, 7), num_frames=10)
    np.testing.assert_array_equal(np.concatenate([pixels(piece) for piece in pieces]), expected)


def test_crop_and_scale_happen_in_the_decoder(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    expected = show(fake_gpu, path)
    _, rows, width = expected.shape
    height = rows * 2 // 3
    what: dict[str, Any] = {"device_config": cuda_config(0), "pix_fmt": None}
    cut = decode_packets_nvdec(demux_video(path), crop_left=8, crop_right=4, crop_top=2, crop_bottom=6, **what)
    luma, chroma = expected[:, 2 : height - 6, 8 : width - 4], expected[:, height + 1 : rows - 3, 8 : width - 4]
    np.testing.assert_array_equal(pixels(cut), np.concatenate([luma, chroma], 1))
    scaled = decode_packets_nvdec(demux_video(path), scale_width=32, scale_height=18, **what)
    assert scaled.shape == (len(expected), 27, 32)
    one_side = decode_packets_nvdec(demux_video(path), scale_width=32, **what)
    assert one_side.shape == (len(expected), rows, 32)
    with pytest.raises(RuntimeError, match="the crop leaves nothing of a picture of"):
        decode_packets_nvdec(demux_video(path), crop_left=width - 1, **what)


def test_colours_are_those_that_the_video_names(fake_gpu: FakeGpu, clip: Clip) -> None:
    path, config = clip("h264.mp4"), cuda_config(0)
    # It names no matrix. FFmpeg takes BT.601 too, and rounds down on the way (test_gpu_colors.py).
    show(fake_gpu, path)
    got = pixels(decode_packets_nvdec(demux_video(path), device_config=config)).astype(int)
    expected = to_numpy(load_video(path)).transpose(0, 3, 1, 2)
    assert np.abs(got - expected).max() <= 3
    assert np.abs(got - expected).mean() <= 1.1
    for matrix, full in ((1, 0), (9, 1)):
        show(fake_gpu, path, matrix=matrix, full_range=full)
        frames = decode_packets_nvdec(demux_video(path), device_config=config, pix_fmt=None)
        converted = nv12_to_rgb(frames, device_config=config, coeff=matrix, full_range=bool(full))
        got = pixels(decode_packets_nvdec(demux_video(path), device_config=config, pix_fmt="bgr"))
        np.testing.assert_array_equal(got[:, ::-1], pixels(converted))


@pytest.mark.parametrize(("name", "bits"), [("hevc.mp4", 10), ("av1.mp4", 10), ("vp9.webm", 12)])
@pytest.mark.parametrize("full_range", [0, 1])
def test_more_bits_are_rounded_once(fake_gpu: FakeGpu, clip: Clip, name: str, bits: int, full_range: int) -> None:
    path, config = clip(name), cuda_config(0)
    expected = show(fake_gpu, path)
    packets = demux_video(path)
    numerator, denominator = packets.codec.time_base
    times = [round(time * denominator / numerator) for time in packets.get_timestamps()]
    deep = np.random.default_rng(bits).integers(0, 1 << bits, expected.shape, np.uint16) << (16 - bits)
    fake_gpu.set_video(deep, times, None, bits=bits, matrix=9, full_range=full_range)
    got = pixels(decode_packets_nvdec(packets, device_config=config))
    assert got.dtype == np.uint8
    assert np.abs(got - yuv_to_rgb(deep, 9, bits=bits, full_range=bool(full_range))).max() <= 0.51
    flipped = pixels(decode_packets_nvdec(demux_video(path), device_config=config, pix_fmt="bgr"))
    np.testing.assert_array_equal(flipped[:, ::-1], got)
    # Without a conversion the chip makes 8 bits of them, and scales and cuts either.
    left = pixels(decode_packets_nvdec(demux_video(path), device_config=config, pix_fmt=None))
    np.testing.assert_array_equal(left, deep >> 8)
    cut = pixels(decode_packets_nvdec(demux_video(path), device_config=config, crop_left=8, crop_top=4))
    np.testing.assert_array_equal(cut, got[:, :, 4:, 8:])
    (piece, *_) = streaming_load_video_nvdec(path, config, num_frames=10)
    assert (piece.dtype, piece.shape) == ("uint8", (10, *expected.shape[1:]))


def test_decoders_of_both_depths_do_not_serve_each_other(fake_gpu: FakeGpu, clip: Clip) -> None:
    path, config = clip("hevc_10bit.mp4"), cuda_config(0)
    shown = show_clip(fake_gpu, path, bits=10)
    for _ in range(2):
        got = pixels(decode_packets_nvdec(demux_video(path), device_config=config)).transpose(0, 2, 3, 1)
        assert np.abs(got - shown.rgb()).max() <= 0.51
        left = pixels(decode_packets_nvdec(demux_video(path), device_config=config, pix_fmt=None))
        np.testing.assert_array_equal(left, shown.surfaces >> 8)
    show_clip(fake_gpu, path, bits=10, surfaces=1)
    with pytest.raises(RuntimeError, match=r"does not decode such a video to P016: 4:2:0, 10 bits, .*decode it on the"):
        decode_packets_nvdec(demux_video(path), device_config=config)


# ---- reuse -----------------------------------------------------------------------------------------------------


def test_a_decoder_serves_one_video_after_the_other(fake_gpu: FakeGpu, clip: Clip) -> None:
    paths = [clip("h264.mp4"), clip("h264.mkv"), clip("h264.mp4")]
    for path in paths:
        expected = show(fake_gpu, path)
        there = decode_packets_nvdec(demux_video(path), device_config=cuda_config(0), pix_fmt=None)
        np.testing.assert_array_equal(pixels(there), expected)
    made = fake_gpu.driver.calls("cuvidCreateDecoder")
    assert made <= 1
    assert fake_gpu.driver.calls("cuvidReconfigureDecoder") == 3 - made
    decoder = nvdec_decoder(cuda_config(0), demux_video(paths[0]).codec, use_cache=False)
    decoder.decode_packets(demux_video(paths[0]))
    del decoder
    assert fake_gpu.driver.calls("cuvidCreateDecoder") == made + 1
    assert fake_gpu.driver.calls("cuvidDestroyDecoder") >= 1


def test_a_few_decoders_are_kept_and_no_more(fake_gpu: FakeGpu, clip: Clip) -> None:
    names = [*H264, *OTHERS]
    for name in names:
        path = clip(name)
        show(fake_gpu, path)
        decode_packets_nvdec(demux_video(path), device_config=cuda_config(0), pix_fmt=None)
    assert fake_gpu.video_objects("decoders") <= KEPT


def test_decoders_are_used_again_after_a_flush(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    expected = show(fake_gpu, path)
    decoder = nvdec_decoder(cuda_config(0), demux_video(path).codec)
    decoder.init_buffer(12)
    for _ in range(2):
        with Demuxer(path) as demuxer:
            pieces: list[CUDABuffer] = []
            packets: Any
            for packets in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=5):
                pieces += decoder.streaming_decode_packets(packets)
            pieces += decoder.flush()
        np.testing.assert_array_equal(np.concatenate([pixels(piece) for piece in pieces]), expected)
    np.testing.assert_array_equal(pixels(decoder.decode_packets(demux_video(path))), expected)


def test_threads_decode_at_once(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    expected = show(fake_gpu, path)
    barrier = threading.Barrier(4)

    def work(stream: int) -> None:
        barrier.wait()
        for _ in range(3):
            there = decode_packets_nvdec(demux_video(path), device_config=cuda_config(0, 10 + stream), pix_fmt=None)
            np.testing.assert_array_equal(pixels(there), expected)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_threads_share_a_decoder_one_after_the_other(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    expected = show(fake_gpu, path)
    decoder = nvdec_decoder(cuda_config(0), demux_video(path).codec)
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait()
        for turn in range(3):
            decoder.init_buffer(1 + number + turn)
            np.testing.assert_array_equal(pixels(decoder.decode_packets(demux_video(path))), expected)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


# ---- failures --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "status", "message"),
    [
        ("cuvidGetDecoderCaps", 999, "asking what the GPU decodes failed: cuvidGetDecoderCaps returned CUDA error 999"),
        ("cuvidCreateVideoParser", 2, "cuvidCreateVideoParser returned CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuvidParseVideoData", 999, "reading video packets failed: cuvidParseVideoData returned CUDA error 999"),
        ("cuvidDecodePicture", 700, "cuvidDecodePicture returned CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("cuvidMapVideoFrame64", 2, "cuvidMapVideoFrame64 returned CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuMemcpy2DAsync_v2", 700, "copying a decoded frame failed: cuMemcpy2DAsync returned CUDA_ERROR_ILLEGAL"),
        ("cuEventRecord", 700, "cuEventRecord returned CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("cuEventSynchronize", 700, "cuEventSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("cuMemAllocFromPoolAsync", 2, "cuMemAllocFromPoolAsync returned CUDA_ERROR_OUT_OF_MEMORY"),
    ],
)
def test_what_fails_is_named_and_nothing_is_left(
    fake_gpu: FakeGpu, clip: Clip, call: str, status: int, message: str
) -> None:
    path = clip("h264.mp4")
    expected = show(fake_gpu, path)
    for after in (0, 1, 5):
        fake_gpu.driver.fail(call, status, after)
        try:
            there = decode_packets_nvdec(demux_video(path), device_config=cuda_config(0), pix_fmt=None)
        except RuntimeError as error:
            text = str(error)
        else:
            assert after > 0
            np.testing.assert_array_equal(pixels(there), expected)
            text = message
        assert message in text
        fake_gpu.driver.reset()
    there = decode_packets_nvdec(demux_video(path), device_config=cuda_config(0), pix_fmt=None)
    np.testing.assert_array_equal(pixels(there), expected)


def test_what_the_chip_does_not_decode_is_named(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    show(fake_gpu, path, supported=0, bits=10)
    pix_fmt: Literal["rgb"] | None
    for pix_fmt, surface in (("rgb", "P016"), (None, "NV12")):
        message = rf"this GPU does not decode such a video to {surface}: 4:2:0, 10 bits, .*decode it"
        with pytest.raises(RuntimeError, match=message):
            decode_packets_nvdec(demux_video(path), device_config=cuda_config(0), pix_fmt=pix_fmt)
    show(fake_gpu, path, chroma=3)
    with pytest.raises(RuntimeError, match="does not decode such a video to NV12: 4:4:4, 8 bits"):
        decode_packets_nvdec(demux_video(path), device_config=cuda_config(0))
    ffv1 = clip("ffv1.mkv")
    with pytest.raises(RuntimeError, match="NVDEC decodes no ffv1; decode it on the CPU"):
        decode_packets_nvdec(demux_video(ffv1), device_config=cuda_config(0))


def test_an_abandoned_video_leaves_nothing(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    show(fake_gpu, path)
    pieces = streaming_load_video_nvdec(path, cuda_config(0), num_frames=3)
    next(pieces)
    del pieces
    assert fake_gpu.video_objects("parsers") == 0
    assert fake_gpu.video_objects("mapped") == 0


def test_wrong_arguments_are_named(fake_gpu: FakeGpu, clip: Clip) -> None:
    path, config = clip("h264.mp4"), cuda_config(0)
    codec, wrong = demux_video(path).codec, "wrong"
    bad: Any = wrong
    with pytest.raises(ValueError, match="`scale_width` must be even, as NV12 has a sample of chroma for two pixels"):
        nvdec_decoder(config, codec, scale_width=33)
    with pytest.raises(ValueError, match="`scale_height` must be -1, or an even int"):
        nvdec_decoder(config, codec, scale_height=0)
    with pytest.raises(ValueError, match="`crop_top` must be"):
        nvdec_decoder(config, codec, crop_top=-1)
    with pytest.raises(TypeError, match="`device_config` must be a CUDAConfig"):
        nvdec_decoder(bad, codec)
    with pytest.raises(TypeError, match="`packets` must be VideoPackets"):
        decode_packets_nvdec(bad, device_config=config)
    with pytest.raises(ValueError, match="`pix_fmt` must be"):
        decode_packets_nvdec(demux_video(path), device_config=config, pix_fmt=bad)
    with pytest.raises(RuntimeError, match="is not prepared: call init_decoder"):
        NvDecDecoder().decode_packets(demux_video(path))
    packets = demux_video(path)
    decode_packets(packets)
    with pytest.raises(TypeError, match="were consumed"):
        decode_packets_nvdec(packets, device_config=config)
