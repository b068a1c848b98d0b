"""`VideoReader` with a device, on a GPU made of main memory: which frame comes out where, and with which pixels.

That GPU decodes nothing: it has the frames of the ffmpeg command. But it is gray where a decoder would lack frames that
others build on, so a seek to a wrong place shows.
"""

import pickle
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.gpu_libraries import KEPT, FakeGpu
from tests.io.av.encoded import video
from tests.io.av.gpu_clips import show
from tests.io.av.sources import Pictures
from tests.io.images import encode

from spdl.io import CUDABuffer, VideoReader, cpu_storage, cuda_config, load_image_batch, to_numpy, transfer_buffer_cpu
from spdl.io import decode_config as decode

Clip = Callable[[str], Path]

CLIPS = (
    "h264.mp4",
    "h264.mkv",
    "h264.ts",
    "h264_open_gop.mp4",
    "h264_no_b_frames.mp4",
    "h264_cropped.mp4",
    "hevc.mp4",
    "vp8.webm",
    "vp9.webm",
    "av1.mp4",
    "mpeg4.mp4",
    "irregular.mp4",
    "offset.ts",
)


def pixels(buffer: CUDABuffer) -> Any:
    assert isinstance(buffer, CUDABuffer)
    return to_numpy(transfer_buffer_cpu(buffer))


# ---- which frames ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLIPS)
def test_frames_in_any_order_are_those_of_the_command(fake_gpu: FakeGpu, clip: Clip, name: str) -> None:
    path = clip(name)
    expected = show(fake_gpu, path).rgb()
    reader = VideoReader(path, device="cuda")
    assert len(reader) == len(expected)
    whole = pixels(reader.read_frames(range(len(reader))))
    # The nearest whole numbers, up to the places that factors have.
    assert np.abs(whole - expected).max() <= 0.51
    chosen = random.Random(name)
    for _ in range(25):
        count = chosen.choice([1, 1, 2, 5, 30])
        first = chosen.randrange(len(reader))
        indices = [chosen.randrange(len(reader)) for _ in range(count)]
        if chosen.random() < 0.5:
            indices = list(range(first, min(first + count, len(reader))))
        np.testing.assert_array_equal(pixels(reader.read_frames(indices)), whole[indices])


@pytest.mark.parametrize("reorder", [0, 1, 8])
def test_frames_are_right_however_late_they_are_shown(fake_gpu: FakeGpu, clip: Clip, reorder: int) -> None:
    path = clip("h264_no_b_frames.mp4")
    expected = show(fake_gpu, path, reorder=reorder).rgb()
    reader = VideoReader(path, device="cuda")
    for indices in ([0], [len(reader) - 1], [3, 4, 5], [7], [8], [30, 2]):
        assert np.abs(pixels(reader.read_frames(indices)) - expected[indices]).max() <= 0.51


@pytest.mark.parametrize("name", ["h264.mp4", "h264_open_gop.mp4"])
def test_frames_one_by_one_are_decoded_once(fake_gpu: FakeGpu, clip: Clip, name: str) -> None:
    path = clip(name)
    expected = show(fake_gpu, path).rgb()
    reader = VideoReader(path, device="cuda")
    for index in range(len(reader)):
        assert np.abs(pixels(reader[index]) - expected[index]).max() <= 0.51
    assert fake_gpu.driver.calls("cuvidDecodePicture") == len(reader)
    assert fake_gpu.driver.calls("cuvidCreateVideoParser") == 1


def test_few_frames_decode_from_their_key_frame(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    keys = show(fake_gpu, path).keys
    reader = VideoReader(path, device="cuda")
    last_key = max(index for index, key in enumerate(keys) if key)
    reader.read_frames([last_key])
    # One when it was opened, which tells whether the GPU decodes the video.
    assert fake_gpu.driver.calls("cuvidDecodePicture") <= 1 + len(keys) - last_key
    # Frames that nobody asked for are not copied, but for the few that a decoder shows with them.
    assert fake_gpu.driver.calls("cuvidMapVideoFrame64") <= 4


def test_times_windows_and_slices(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    show(fake_gpu, path)
    here, there = VideoReader(path), VideoReader(path, device="cuda:0")
    assert (there.timestamps, there.key_frames, there.fps) == (here.timestamps, here.key_frames, here.fps)
    whole = pixels(there.read_frames(range(len(there))))
    np.testing.assert_array_equal(pixels(there.read_at([0.5, 0.0, 1.23])), whole[[12, 0, 30]])
    np.testing.assert_array_equal(pixels(there.read(0.4, "4/5")), whole[10:20])
    np.testing.assert_array_equal(pixels(there[10:20:3]), whole[10:20:3])
    np.testing.assert_array_equal(pixels(there[-1]), whole[-1:])
    np.testing.assert_array_equal(pixels(there.read_frames([5, -1, 5, 5, 0])), whole[[5, -1, 5, 5, 0]])


# ---- which pixels ----------------------------------------------------------------------------------------------

FILTERS = {
    "area": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("size", [(40, 30), (150, 100), (96, 30), (40, 64)])
def test_the_resize_is_that_of_pillow(fake_gpu: FakeGpu, clip: Clip, interpolation: Any, size: tuple[int, int]) -> None:
    path = clip("h264.mp4")
    show(fake_gpu, path)
    whole = pixels(VideoReader(path, device="cuda").read_frames([0, 20, 49]))
    options: Any = {"width": size[0], "height": size[1], "mode": "stretch", "interpolation": interpolation}
    got = pixels(VideoReader(path, device="cuda", **options).read_frames([0, 20, 49]))
    expected = [np.asarray(Image.fromarray(each).resize(size, FILTERS[interpolation])) for each in whole]
    np.testing.assert_array_equal(got, expected)


OPTIONS: list[dict[str, Any]] = [
    {"width": 40, "height": 40, "mode": "pad"},
    {"width": 40, "height": 40, "mode": "crop", "pix_fmt": "bgr24"},
    {"width": 48, "height": 100, "interpolation": "nearest"},
    {"width": 40, "height": 30, "layout": "NCHW", "mode": "stretch"},
    {"width": 32, "height": 32, "dtype": "float16", "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.25, 0.3]},
    {"width": 32, "height": 32, "dtype": "float32", "layout": "NCHW", "pix_fmt": "bgr24", "mode": "crop"},
]
TURNS = {"h264.mp4": 0, "rotated_90.mp4": 1, "rotated_180.mp4": 2, "rotated_270.mp4": 3}
"""How often NumPy turns the pictures of a clip by 90 degrees, against the clock, as a viewer shows them."""


@pytest.mark.parametrize("name", TURNS)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def test_pictures_are_made_as_those_of_images(
    fake_gpu: FakeGpu, clip: Clip, name: str, options: dict[str, Any]
) -> None:
    path = clip(name)
    show(fake_gpu, path)
    stored = pixels(VideoReader(path, device="cuda", rotate=False).read_frames([4, 7]))
    upright = np.rot90(stored, TURNS[name], (1, 2))
    np.testing.assert_array_equal(pixels(VideoReader(path, device="cuda").read_frames([4, 7])), upright)
    here = to_numpy(VideoReader(path).read_frames([4, 7]))
    assert np.abs(here.astype(int) - upright.astype(int)).mean() <= 4
    images = [encode(Image.fromarray(each), "PNG") for each in upright]
    got = pixels(VideoReader(path, device="cuda", **options).read_frames([4, 7]))
    np.testing.assert_array_equal(got, to_numpy(load_image_batch(images, **options)))


@pytest.mark.parametrize("options", [{"width": 48}, {"height": 90}, {"width": 50, "height": 20, "mode": "crop"}, {}])
def test_gray_and_open_sides_are_as_on_the_cpu(fake_gpu: FakeGpu, clip: Clip, options: dict[str, Any]) -> None:
    path = clip("h264.mp4")
    show(fake_gpu, path)
    for pix_fmt in ("gray", "rgb24"):
        here = to_numpy(VideoReader(path, exact=True, pix_fmt=pix_fmt, **options).read_frames([4, 7]))
        there = pixels(VideoReader(path, device="cuda", pix_fmt=pix_fmt, **options).read_frames([4, 7]))
        assert there.shape == here.shape
        # FFmpeg interpolates chroma.
        assert np.abs(there.astype(int) - here.astype(int)).mean() <= (1 if pix_fmt == "gray" else 4)


def test_odd_sides_are_kept(fake_gpu: FakeGpu, tmp_path: Path) -> None:
    path = tmp_path / "odd.webm"
    video("libvpx-vp9", "-g", 12, "-b:v", "400k", pictures=Pictures(97, 65, 10)).make(path)
    expected = show(fake_gpu, path).rgb()
    got = pixels(VideoReader(path, device="cuda").read_frames(range(10)))
    assert got.shape == (10, 65, 97, 3)
    assert np.abs(got - expected).max() <= 0.51


def test_colours_are_those_that_the_video_or_its_container_names(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    for matrix, full in ((1, 0), (9, 1), (5, 1)):
        shown = show(fake_gpu, path, matrix=matrix, full_range=full)
        got = pixels(VideoReader(path, device="cuda").read_frames([3]))
        assert np.abs(got - shown.rgb(matrix, full_range=bool(full))[[3]]).max() <= 0.51
    # Here the stream says nothing, but the container does.
    path = clip("bt2020.mp4")
    shown = show(fake_gpu, path)
    got = pixels(VideoReader(path, device="cuda").read_frames([3]))
    assert np.abs(got - shown.rgb(9)[[3]]).max() <= 0.51


@pytest.mark.parametrize("options", [{}, {"width": 40, "height": 30, "dtype": "float16", "layout": "NCHW"}])
def test_ten_bits_are_rounded_once(fake_gpu: FakeGpu, clip: Clip, options: dict[str, Any]) -> None:
    path = clip("hevc_10bit.mp4")
    shown = show(fake_gpu, path, bits=10)
    got = pixels(VideoReader(path, device="cuda", **options).read_frames([2, 20]))
    if not options:
        assert np.abs(got - shown.rgb()[[2, 20]]).max() <= 0.51
        return
    here = to_numpy(VideoReader(path, exact=True, **options).read_frames([2, 20]))
    assert (got.shape, got.dtype) == (here.shape, here.dtype)
    assert np.abs(got.astype(float) - here.astype(float)).mean() <= 1 / 255


# ---- decoders --------------------------------------------------------------------------------------------------


def test_readers_hand_their_decoder_on(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    expected = show(fake_gpu, path).rgb()
    before = fake_gpu.driver.calls("cuvidCreateDecoder")
    for _ in range(5):
        reader = VideoReader(path, device="cuda")
        assert np.abs(pixels(reader.read_frames([30, 2])) - expected[[30, 2]]).max() <= 0.51
        del reader
        assert fake_gpu.video_objects("parsers") == 0
        assert fake_gpu.video_objects("mapped") == 0
    assert fake_gpu.driver.calls("cuvidCreateDecoder") <= before + 1
    assert fake_gpu.video_objects("decoders") <= KEPT


def test_memory_comes_from_the_allocator_of_the_configuration(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    expected = show(fake_gpu, path).rgb()
    lent: dict[int, Any] = {}

    def allocate(size: int, device: int, stream: int) -> int:
        assert (device, stream) == (0, 7)
        memory = np.zeros(size, np.uint8)
        lent[memory.ctypes.data] = memory
        return int(memory.ctypes.data)

    reader = VideoReader(path, device=cuda_config(0, 7, (allocate, lent.pop)))
    there = reader.read_frames([3, 40])
    (memory,) = lent.values()
    assert np.abs(memory.reshape(there.shape) - expected[[3, 40]]).max() <= 0.51
    del there, memory
    assert not lent


def test_threads_share_a_reader(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264_open_gop.mp4")
    show(fake_gpu, path)
    reader = VideoReader(path, device="cuda")
    whole = pixels(reader.read_frames(range(len(reader))))
    barrier = threading.Barrier(4)

    def work(seed: int) -> None:
        chosen = random.Random(seed)
        barrier.wait()
        for _ in range(10):
            indices = chosen.sample(range(len(reader)), 4)
            np.testing.assert_array_equal(pixels(reader.read_frames(indices)), whole[indices])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_a_reader_can_be_pickled(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    show(fake_gpu, path)
    reader = VideoReader(path, device="cuda", width=32, height=32)
    again = pickle.loads(pickle.dumps(reader))
    np.testing.assert_array_equal(pixels(again.read_frames([7])), pixels(reader.read_frames([7])))


# ---- failures --------------------------------------------------------------------------------------------------


def test_what_a_gpu_does_not_decode_says_so_when_the_video_is_opened(fake_gpu: FakeGpu, clip: Clip) -> None:
    for name, message in (
        ("h264_422.mp4", 'does not decode such a video to NV12: 4:2:2, 8 bits, 96x64 pixels; .*device="cpu"'),
        ("h264_444.mp4", "does not decode such a video to NV12: 4:4:4, 8 bits"),
    ):
        show(fake_gpu, clip(name), chroma=2 + ("444" in name))
        with pytest.raises(RuntimeError, match=message) as error:
            VideoReader(clip(name), device="cuda")
        assert name in str(error.value)
    for name, message in (
        ("ffv1.mkv", 'NVDEC decodes no ffv1; decode it on the CPU: device="cpu"'),
        ("h264.avi", 'the file does not say when each frame is shown.*device="cpu"'),
    ):
        with pytest.raises(RuntimeError, match=message) as error:
            VideoReader(clip(name), device="cuda")
        assert name in str(error.value)
    path = clip("hevc_10bit.mp4")
    show(fake_gpu, path, bits=10, surfaces=1)
    with pytest.raises(RuntimeError, match="does not decode such a video to P016: 4:2:0, 10 bits"):
        VideoReader(path, device="cuda")


def test_a_damaged_frame_is_an_error_and_the_others_are_not(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    expected = show(fake_gpu, path, damaged=20).rgb()
    reader = VideoReader(path, device="cuda")
    for indices in ([20], range(15, 25)):
        with pytest.raises(RuntimeError, match=r"cannot decode the video stream 0 \(h264\) at 0.8.* says that the fra"):
            reader.read_frames(indices)
    for indices in ([19], [21, 3], range(21, 30)):
        assert np.abs(pixels(reader.read_frames(indices)) - expected[list(indices)]).max() <= 0.51


def test_a_frame_that_does_not_come_is_an_error(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    expected = show(fake_gpu, path).rgb()
    reader = VideoReader(path, device="cuda")
    assert len(pixels(reader.read_frames([1]))) == 1
    with pytest.raises(IndexError, match="`indices` must be frames from -50 to 49, got 50"):
        reader.read_frames([50])
    np.testing.assert_allclose(pixels(reader[1]), expected[[1]], atol=0.51)


def test_wrong_arguments_are_named(fake_gpu: FakeGpu, clip: Clip) -> None:
    path = clip("h264.mp4")
    wrong: Any
    for wrong in ("gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:00000", "mps"):
        with pytest.raises(ValueError, match="`device` must be None, 'cpu', 'cuda'"):
            VideoReader(path, device=wrong)
    with pytest.raises(ValueError, match="`device_index` must be less than 1, the number of GPUs"):
        VideoReader(path, device="cuda:1")
    for wrong in (0, ["cuda"]):
        with pytest.raises(TypeError, match="`device` must be None, 'cpu', 'cuda'"):
            VideoReader(path, device=wrong)
    with pytest.raises(ValueError, match="`decode_config` must be without a decoder and its options"):
        VideoReader(path, device="cuda", decode_config=decode(decoder_options={"err_detect": "ignore_err"}))
    reader = VideoReader(path, device="cuda")
    with pytest.raises(ValueError, match="`storage` must be None if a GPU decodes"):
        reader.read_frames([0], storage=cpu_storage(100000))
    with pytest.raises(ValueError, match=r"`device` must be None or 'cpu' for decode\(\).*got 'cuda'"):
        reader.decode([0])
    assert isinstance(to_numpy(VideoReader(path, device="cpu").read_frames([0])), np.ndarray)


def test_the_device_of_this_rank_is_taken(fake_gpu: FakeGpu, clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "3")
    with pytest.raises(ValueError, match=r"`device_index` must be less than 1, the number of GPUs.*got 3"):
        VideoReader(clip("h264.mp4"), device="cuda")


def test_devices_of_pytorch_are_known(fake_gpu: FakeGpu, clip: Clip) -> None:
    torch = pytest.importorskip("torch")
    path = clip("h264.mp4")
    show(fake_gpu, path)
    assert pixels(VideoReader(path, device=torch.device("cuda", 0))[0]).shape == (1, 64, 96, 3)
    assert to_numpy(VideoReader(path, device=torch.device("cpu"))[0]).shape == (1, 64, 96, 3)
