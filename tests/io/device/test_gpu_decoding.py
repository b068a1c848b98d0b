"""Decoding on a real GPU. The logic is tested without one in test_gpu_images.py, test_nvdec.py and beside these."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.images import encode, make_image, make_jpeg

from spdl.io import (
    CUDABuffer,
    Muxer,
    VideoReader,
    create_reference_video_frame,
    cuda_config,
    decode_image_nvjpeg,
    decode_packets_nvdec,
    demux_video,
    load_image_batch,
    load_video,
    nv12_to_rgb,
    streaming_load_video_nvdec,
    to_numpy,
    transfer_buffer_cpu,
    video_encode_config,
)
from spdl.io.utils import built_with_nvcodec, built_with_nvjpeg, cuda_info

pytestmark = pytest.mark.cuda

ENCODERS = ("libx264", "libopenh264", "libx265", "libvpx-vp9", "libsvtav1", "mpeg2video", "mpeg4")

CLIPS = sorted(Path(os.environ.get("SPDL_TEST_CLIPS", os.devnull)).glob("*.*"))
"""More clips, as the FFmpeg of a wheel encodes few formats. `python -m tests.io.av.carried_clips FOLDER` makes some."""


def pixels(buffer: CUDABuffer) -> Any:
    return to_numpy(transfer_buffer_cpu(buffer))


def decibels(got: Any, expected: Any) -> float:
    difference = got.astype(np.float64) - expected
    return float(10 * np.log10(255**2 / max(float((difference**2).mean()), 1e-9)))


def compare(got: Any, expected: Any) -> None:
    assert np.abs(got.astype(np.float64) - expected).mean() <= 1
    assert decibels(got, expected) >= 38


@pytest.fixture
def nvjpeg() -> None:
    if not built_with_nvjpeg():
        pytest.skip(f"needs nvJPEG and NVRTC:\n{cuda_info()}")


@pytest.fixture
def nvdec() -> None:
    if not built_with_nvcodec():
        pytest.skip(f"needs NVDEC:\n{cuda_info()}")


def make_video(path: Path, encoder: str, width: int = 256, height: int = 192) -> Path:
    """Write two seconds of moving waves. Skip the test if the FFmpeg in use does not encode so."""
    number, y, x = np.mgrid[:50, :height, :width]
    waves = [127 + 100 * np.sin(x / (9 + channel) + y / 13 + number / 5) for channel in range(3)]
    frames = create_reference_video_frame(np.stack(waves, -1).astype(np.uint8), "rgb24", 25, 0)
    muxer = Muxer(path)
    try:
        stream = muxer.add_encode_stream(
            video_encode_config(height=height, width=width, frame_rate=25, gop_size=12), encoder=encoder
        )
        with muxer.open():
            if (packets := stream.encode(frames)) is not None:
                muxer.write(0, packets)
    except RuntimeError as error:
        pytest.skip(f"needs the encoder {encoder}: {error}")
    return path


# ---- JPEG ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.usefixtures("nvjpeg")
def test_photos_are_within_a_level_of_the_cpu(subsampling: str) -> None:
    jpegs = [make_jpeg(500 + i, 375 - i, i, subsampling=subsampling) for i in range(32)]
    for width, height in ((224, 224), (96, 80), (640, 480)):
        there = load_image_batch(jpegs, width=width, height=height, device_config=cuda_config(0))
        assert set(there.backends) == {"nvjpeg"}
        compare(pixels(there), to_numpy(load_image_batch(jpegs, width=width, height=height)))


@pytest.mark.usefixtures("nvjpeg")
def test_values_crops_and_flips_are_those_of_the_cpu() -> None:
    jpegs = [make_jpeg(320, 240, i) for i in range(16)]
    options: Any = {"width": 64, "height": 64, "crop": [(10, 20, 250, 200)] * 16, "flip": [True, False] * 8}
    what: Any = {"layout": "NCHW", "dtype": "float16", "mean": [0.5] * 3, "std": [0.25] * 3}
    there = pixels(load_image_batch(jpegs, device_config=cuda_config(0), **options, **what)).astype(np.float64)
    here = to_numpy(load_image_batch(jpegs, **options, **what)).astype(np.float64)
    compare((there * 0.25 + 0.5) * 255, (here * 0.25 + 0.5) * 255)


@pytest.mark.usefixtures("nvjpeg")
def test_the_cpu_decodes_the_rest_of_a_batch() -> None:
    sources = [make_jpeg(160, 120, i) for i in range(20)]
    sources[3] = make_jpeg(160, 120, 3, progressive=True)
    sources[7] = encode(make_image(160, 120, 7), "PNG")
    sources[11] = sources[11][:2000]
    there = load_image_batch(sources, width=64, height=48, device_config=cuda_config(0), on_error="zero")
    here = load_image_batch(sources, width=64, height=48, on_error="zero")
    assert [each.index for each in there.failures] == [each.index for each in here.failures]
    compare(pixels(there), to_numpy(here))


@pytest.mark.usefixtures("nvjpeg")
def test_threads_decode_images_at_once() -> None:
    jpegs = [make_jpeg(200, 150, i) for i in range(16)]
    expected = to_numpy(load_image_batch(jpegs, width=96, height=80))
    barrier = threading.Barrier(8)

    def work(_: int) -> None:
        barrier.wait()
        for _ in range(10):
            compare(pixels(load_image_batch(jpegs, width=96, height=80, device_config=cuda_config(0))), expected)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


@pytest.mark.usefixtures("nvjpeg")
def test_one_image_becomes_planes() -> None:
    jpeg = make_jpeg(123, 77)
    expected = to_numpy(load_image_batch([jpeg], width=123, height=77, layout="NCHW"))[0]
    compare(pixels(decode_image_nvjpeg(jpeg)), expected)


# ---- video -----------------------------------------------------------------------------------------------------


SUFFIXES = {"libvpx-vp9": "mkv", "mpeg2video": "ts"}


@pytest.fixture(params=[*ENCODERS, *CLIPS], ids=str)
def video(request: pytest.FixtureRequest, tmp_path: Path, nvdec: None) -> Path:
    """Return a clip that the GPU decodes."""
    path = request.param
    if isinstance(path, str):
        path = make_video(tmp_path / f"clip.{SUFFIXES.get(path, 'mp4')}", path)
    try:
        VideoReader(path, device="cuda")
    except RuntimeError as error:
        if "this GPU does not decode" not in str(error):
            raise
        pytest.skip(str(error))
    return Path(path)


def test_nv12_frames_are_those_of_ffmpeg(video: Path) -> None:
    codec = VideoReader(video).codec
    if codec.width % 2:
        pytest.skip("in NV12 there are no odd sides")
    expected = to_numpy(load_video(video, filter_desc="format=pix_fmts=nv12"))
    got = pixels(decode_packets_nvdec(demux_video(video), device_config=cuda_config(0), pix_fmt=None))
    # The inverse DCT of MPEG is not the same in all decoders; that of the others is. 10 bits are rounded somehow.
    if codec.name in {"mpeg1video", "mpeg2video", "mpeg4"} or "p10" in codec.pix_fmt:
        compare(got, expected.reshape(got.shape))
    else:
        np.testing.assert_array_equal(got, expected.reshape(got.shape))


def test_frames_in_any_order_are_those_of_the_whole_video(video: Path) -> None:
    reader = VideoReader(video, device="cuda")
    whole = pixels(reader.read_frames(range(len(reader))))
    # At its full size, FFmpeg interpolates the chroma of these pictures, which is sharper than that of films.
    here = to_numpy(VideoReader(video, exact=True).read_frames(range(len(reader))))
    assert all(decibels(one, other) >= 27 for one, other in zip(whole, here, strict=True))
    chosen = np.random.default_rng(0)
    for count in (1, 1, 1, 2, 5, 5, 30):
        indices = chosen.integers(0, len(reader), count).tolist()
        np.testing.assert_array_equal(pixels(reader.read_frames(indices)), whole[indices])
    if reader.codec.width % 2:
        return
    options: Any = {"width": 112, "height": 112, "layout": "NCHW", "dtype": "float16", "mean": [0.5] * 3}
    there = pixels(VideoReader(video, device="cuda", **options).read_frames([0, len(reader) - 1]))
    here = to_numpy(VideoReader(video, exact=True, **options).read_frames([0, len(reader) - 1]))
    compare(there.astype(np.float64) * 255, here.astype(np.float64) * 255)


@pytest.mark.usefixtures("nvdec")
def test_colours_windows_and_pieces(tmp_path: Path) -> None:
    path, config = make_video(tmp_path / "clip.mp4", "mpeg4"), cuda_config(0)
    expected = to_numpy(load_video(path)).transpose(0, 3, 1, 2).astype(int)
    got = pixels(decode_packets_nvdec(demux_video(path), device_config=config)).astype(int)
    assert got.shape == expected.shape
    assert np.abs(got - expected).mean() <= 2
    cut = pixels(decode_packets_nvdec(demux_video(path, timestamp=(0.4, 1.2)), device_config=config))
    np.testing.assert_array_equal(cut, got[10:30])
    pieces = list(streaming_load_video_nvdec(path, config, num_frames=7))
    assert [len(piece) for piece in pieces] == [7] * 7 + [1]
    np.testing.assert_array_equal(pixels(nv12_to_rgb(pieces, device_config=config, coeff=6)), got)
    scaled = decode_packets_nvdec(
        demux_video(path), device_config=config, scale_width=64, scale_height=32, crop_left=16
    )
    assert scaled.shape == (50, 3, 32, 64)


@pytest.mark.usefixtures("nvdec")
def test_many_videos_leave_no_memory_behind(tmp_path: Path) -> None:
    path, config = make_video(tmp_path / "clip.mp4", "mpeg4"), cuda_config(0)
    first = pixels(decode_packets_nvdec(demux_video(path), device_config=config, pix_fmt=None))

    def work(_: int) -> None:
        for _ in range(20):
            again = decode_packets_nvdec(demux_video(path), device_config=config, pix_fmt=None)
            np.testing.assert_array_equal(pixels(again), first)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
